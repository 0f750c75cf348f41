package embed_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"daybook/embed"
	"daybook/internal/translog"
)

// The end of an origin is accepted, and the process is killed before the successor has signed anything. The next start
// continues, without the permission being given again.
func TestKilledAfterTheEndOfAnOrigin(t *testing.T) {
	t.Parallel()
	opts, key, _, vkey := setBack(t)
	signed, err := os.ReadFile(key + ".signed")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(opts.DataDir, "audit")
	if err := errors.Join(os.Remove(key), translog.AcceptDamage(dir, key, "")); err != nil {
		t.Fatal(err)
	}
	var id map[string]any
	file := filepath.Join(dir, "ledger.json")
	raw, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(raw, &id)
	}
	if err != nil {
		t.Fatal(err)
	}
	id["ended"] = map[string]any{"origin": id["origin"], "reason": "the signing key was lost", "signed": string(signed)}
	id["origin"], id["unfinished"] = id["origin"].(string)+"/2", true
	if raw, err = json.Marshal(id); err == nil {
		err = os.WriteFile(file, raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}

	book := start(t, opts)
	if list, _ := book.Damage(); len(list) > 0 {
		t.Fatalf("found %v", list)
	}
	run(t, book, embed.Script{Code: "3"})
	next := book.AuditKey()
	closeBook(t, book)
	r, err := embed.Verify(t.Context(), embed.VerifyOptions{DataDir: opts.DataDir, Keys: []string{vkey, next}})
	if err != nil || !r.OK || len(r.Origins) != 1 || !r.Origins[0].Trusted {
		t.Errorf("%v\n%s", err, r)
	}
}
