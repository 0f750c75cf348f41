package embed_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"daybook/embed"
	"daybook/events"
	"daybook/internal/translog"
	"daybook/internal/translog/translogtest"
	"daybook/proof"
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

// exported returns the options of a closed ledger, and its newest checkpoint. unfinished returns the directory of an export of
// it that was interrupted before its first event.
func exported(t *testing.T) (opts embed.Options, c proof.Checkpoint, unfinished func() string) {
	t.Helper()
	opts = embed.Options{DataDir: filepath.Join(t.TempDir(), "data")}
	book := start(t, opts)
	run(t, book, embed.Script{Code: "1"})
	closeBook(t, book)
	done := filepath.Join(t.TempDir(), "done")
	x, err := embed.Export(within(t), embed.ExportOptions{DataDir: opts.DataDir, Dir: done})
	if err == nil {
		c, err = proof.ParseCheckpoint(x.Checkpoint)
	}
	if err != nil {
		t.Fatal(err)
	}
	return opts, c, func() string {
		t.Helper()
		dir := t.TempDir()
		err := os.CopyFS(dir, os.DirFS(done))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, proof.ManifestFile)
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		m, err := proof.ParseManifest(raw)
		m.Events, m.Files = 0, nil
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, proof.UnfinishedFile), m.Encode(), 0o644), os.Remove(path),
			os.Truncate(filepath.Join(dir, proof.EventsFile), 0))
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
}

// A ledger that contradicts what was signed is not exported, and no export of it is continued.
func TestNoExportOfAContradictedLedger(t *testing.T) {
	t.Parallel()
	opts, c, unfinished := exported(t)
	signer := translogtest.SignerOf(t, filepath.Join(opts.DataDir, "audit", "key"))
	other, err := proof.Checkpoint{Origin: c.Origin, Size: c.Size, Root: proof.Hash{1}}.Sign(signer)
	if err == nil {
		err = os.WriteFile(translog.SignedPath(filepath.Join(opts.DataDir, "audit"), "", ""), other.Note, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]embed.ExportOptions{
		"everything": {}, "up to the end": {To: c.Size}, "the beginning": {To: 2}, "an older checkpoint": {Checkpoint: c.Note}, "an unfinished export": {Resume: true, Dir: unfinished()},
	} {
		if x.DataDir = opts.DataDir; x.Dir == "" {
			x.Dir = filepath.Join(t.TempDir(), "export")
		}
		if _, err := embed.Export(within(t), x); !errors.Is(err, events.ErrDamaged) || !strings.Contains(err.Error(), "have the tree hash") || strings.Contains(err.Error(), "with --resume") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// If only the signing key is lost, the signed events can be exported, as the error about the others advises.
func TestExportWithoutTheKey(t *testing.T) {
	t.Parallel()
	opts, c, unfinished := exported(t)
	book := start(t, opts)
	run(t, book, embed.Script{Code: "2"})
	closeBook(t, book)
	if err := os.Remove(filepath.Join(opts.DataDir, "audit", "key")); err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]embed.ExportOptions{
		"up to a checkpoint": {To: c.Size}, "the beginning": {To: 2}, "an older checkpoint": {Checkpoint: c.Note}, "an unfinished export": {Resume: true, Dir: unfinished()},
	} {
		if x.DataDir = opts.DataDir; x.Dir == "" {
			x.Dir = filepath.Join(t.TempDir(), "export")
		}
		_, err := embed.Export(within(t), x)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if r, err := embed.Verify(within(t), embed.VerifyOptions{Export: x.Dir}); err != nil || r.Found > 0 {
			t.Errorf("%s: verify: %v\n%s", name, err, r)
		}
	}
}
