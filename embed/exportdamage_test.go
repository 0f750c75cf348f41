package embed_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"daybook/embed"
	"daybook/events"
)

// A ledger whose proofs are lost is damaged and signs nothing. Its export does not wait for a checkpoint, and says
// what to do.
func TestExportWithoutProofs(t *testing.T) {
	t.Parallel()
	opts := embed.Options{DataDir: filepath.Join(t.TempDir(), "data")}
	book := start(t, opts)
	run(t, book, embed.Script{Code: "1"})
	closeBook(t, book)
	if err := os.RemoveAll(filepath.Join(opts.DataDir, "audit")); err != nil {
		t.Fatal(err)
	}
	for _, to := range []uint64{0, 2} {
		_, err := embed.Export(t.Context(), embed.ExportOptions{DataDir: opts.DataDir, To: to, Dir: filepath.Join(t.TempDir(), "export")})
		if !errors.Is(err, events.ErrDamaged) || !strings.Contains(err.Error(), "there is no signed checkpoint of this ledger") || !strings.Contains(err.Error(), "--accept-damage") {
			t.Errorf("the export up to %d: %v", to, err)
		}
	}
}
