package embed_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"daybook/embed"
)

// A data directory whose streams are older than its checkpoints was set back. Without streams it is
// damaged.
func TestVerifyOlderStreams(t *testing.T) {
	t.Parallel()
	opts := embed.Options{DataDir: t.TempDir()}
	streams, older := filepath.Join(opts.DataDir, "jetstream"), filepath.Join(t.TempDir(), "older")
	var key string
	for range 2 {
		if key != "" {
			if err := os.CopyFS(older, os.DirFS(streams)); err != nil {
				t.Fatal(err)
			}
		}
		book := start(t, opts)
		completes(t, book, embed.Script{Code: "1"})
		key = book.AuditKey()
		closeBook(t, book)
	}
	if err := os.RemoveAll(streams); err != nil {
		t.Fatal(err)
	}
	verify := func(keys ...string) *embed.Report {
		t.Helper()
		r, err := embed.Verify(within(t), embed.VerifyOptions{DataDir: opts.DataDir, Keys: keys})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := verify(key); r.OK || !strings.HasPrefix(r.String(), "NOT INTACT  ") || !strings.Contains(r.String(), "recorded events are missing") {
		t.Errorf("without streams:\n%s", r)
	}
	if err := os.CopyFS(streams, os.DirFS(older)); err != nil {
		t.Fatal(err)
	}
	for _, keys := range [][]string{{key}, nil} {
		if r := verify(keys...); r.Verdict != embed.RolledBack || r.Events == 0 {
			t.Errorf("with older streams and %d keys:\n%s", len(keys), r)
		}
	}
	// The files of the tree alone also show that events are missing.
	for _, name := range []string{"checkpoints", "key.signed"} {
		if err := os.Remove(filepath.Join(opts.DataDir, "audit", name)); err != nil {
			t.Fatal(err)
		}
	}
	if r := verify(key); !strings.HasPrefix(r.String(), "NOT INTACT  ") || !strings.Contains(r.String(), "recorded events are missing: positions") {
		t.Errorf("without checkpoints:\n%s", r)
	}
}
