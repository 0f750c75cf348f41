package embed_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"daybook/embed"
)

// Tiles and a file "durable" of another ledger are no damage: the tree is computed again from the
// events, at a start with and without the acceptance of damage.
func TestTreeOfAnotherLedgerIsComputedAgain(t *testing.T) {
	t.Parallel()
	ledgerOf := func(opts embed.Options, runs int) (key string) {
		book := start(t, opts)
		for range runs {
			completes(t, book, embed.Script{Code: "1"})
			// Only a checkpoint of fewer events than a tree can contradict it.
			if code, text := answer(t, book, http.MethodPost, "/api/ledger/checkpoint", ""); code != http.StatusOK {
				t.Fatalf("a checkpoint: %d %s", code, text)
			}
		}
		key = book.AuditKey()
		closeBook(t, book)
		return key
	}
	small, large := t.TempDir(), t.TempDir()
	ledgerOf(embed.Options{DataDir: small}, 1)
	ledgerOf(embed.Options{DataDir: large}, 12)
	for name, test := range map[string]struct {
		from   string
		accept bool
	}{
		"smaller": {small, false}, "larger": {large, false}, "smaller, accepted": {small, true}, "larger, accepted": {large, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := embed.Options{DataDir: t.TempDir()}
			key := ledgerOf(opts, 4)
			proofs := filepath.Join(opts.DataDir, "audit")
			for _, name := range []string{"tile", "durable"} {
				if err := os.RemoveAll(filepath.Join(proofs, name)); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.CopyFS(filepath.Join(proofs, "tile"), os.DirFS(filepath.Join(test.from, "audit", "tile"))); err != nil {
				t.Fatal(err)
			}
			raw, err := os.ReadFile(filepath.Join(test.from, "audit", "durable"))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(proofs, "durable"), raw, 0o600); err != nil {
				t.Fatal(err)
			}
			first := opts
			first.Storage.AcceptDamage = test.accept
			book := start(t, first)
			for range 2 {
				if err := book.Ready(within(t)); err != nil {
					t.Error(err)
				}
				if code, text := answer(t, book, http.MethodPost, "/api/ledger/checkpoint", ""); code != http.StatusOK {
					t.Fatalf("a checkpoint: %d %s", code, text)
				}
				completes(t, book, embed.Script{Code: "2"})
				if got := book.AuditKey(); got != key {
					t.Errorf("the key is %s, it was %s", got, key)
				}
				if list, _ := book.Damage(); len(list) > 0 {
					t.Errorf("damage: %v", list)
				}
				closeBook(t, book)
				if r, err := embed.Verify(within(t), embed.VerifyOptions{DataDir: opts.DataDir, Keys: []string{key}}); err != nil || !r.OK || len(r.Lost) > 0 {
					t.Errorf("%v\n%s", err, r)
				}
				book = start(t, opts)
			}
		})
	}
}
