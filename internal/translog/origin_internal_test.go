package translog

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/keyfile"
	"daybook/proof"
)

// A tail that another key signed in the name of the ledger is damage, also if the files of the tree
// cover it: then the events are in the tree before the start.
func TestForeignTailInTheTree(t *testing.T) {
	t.Parallel()
	ledger := newMemoryLedger()
	ledger.fill(t, 600)
	dir, key := t.TempDir(), filepath.Join(t.TempDir(), "key")
	l := follow(t, ledger, Options{Dir: dir, KeyFile: key})
	sign(t, l, ledger)
	if err := l.makeDurable(); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "audit")
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	tail := newMemoryLedger()
	tail.list, tail.last = append(tail.list, ledger.list...), ledger.last
	tail.fill(t, 300)

	// The forger writes the tail, signs it with another key of the same name, and writes the files.
	foreign := filepath.Join(t.TempDir(), "key")
	if _, _, err := keyfile.Create(foreign, l.Origin()); err != nil {
		t.Fatal(err)
	}
	forger, err := Open(Options{Dir: copied, KeyFile: foreign, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	forge := func() {
		list, err := tail.ReadRaw(t.Context(), forger.Size(), 10_000)
		if err == nil {
			err = forger.appendBatch(list, tail.last)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	forge()
	c, err := proof.Checkpoint{Origin: forger.keys.Origin, Size: forger.tree.Size(), Root: forger.tree.Root()}.Sign(forger.keys.signer)
	if err == nil {
		err = tail.add(events.New(events.LedgerTenant, time.Now(), &events.LedgerCheckpointed{LedgerID: "x", Origin: c.Origin, Size: c.Size, RootHash: proof.EncodeHash(c.Root), Note: string(c.Note)}))
	}
	if err != nil {
		t.Fatal(err)
	}
	forger.signers = &proof.Signers{} // else its own key does not count for it
	forge()
	if err := forger.makeDurable(); err != nil {
		t.Fatal(err)
	}

	again, err := Open(Options{Dir: copied, KeyFile: key, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if err := again.Run(ctx, tail, tail); !errors.Is(err, events.ErrDamaged) || !strings.Contains(err.Error(), "none of its keys signed it") {
		t.Errorf("Run: %v", err)
	}
}

// A pass of the scrub ends when an origin ends: the tree that it compares is computed again.
func TestScrubEndsWithTheTree(t *testing.T) {
	t.Parallel()
	ledger := newMemoryLedger()
	ledger.fill(t, 600)
	dir := t.TempDir()
	l := follow(t, ledger, Options{Dir: dir})
	sign(t, l, ledger)
	if err := l.makeDurable(); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "audit")
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(copied, fileKey), 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := Open(Options{Dir: copied, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	pass := again.NewScrub(ScrubOptions{Found: func(first, last uint64, what string) { t.Errorf("found %d to %d: %s", first, last, what) }}).newPass()
	if err := again.endOrigin("a test"); err != nil {
		t.Fatal(err)
	}
	for _, level := range []int{0, 1} {
		if _, err := pass.tileAt(t.Context(), level, 0); !errors.Is(err, errTreeReplaced) {
			t.Errorf("level %d: %v", level, err)
		}
	}
	pass.found(1, 1, "a difference")
}
