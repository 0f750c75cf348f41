package translog_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"daybook/internal/translog"
)

// Only errors that the key file causes are KeyFileErrors.
func TestKeyFileError(t *testing.T) {
	t.Parallel()
	bad, good := filepath.Join(t.TempDir(), "bad"), filepath.Join(t.TempDir(), "good")
	if err := os.WriteFile(bad, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := translog.Open(translog.Options{Dir: t.TempDir(), KeyFile: bad, NoSync: true})
	if _, ok := errors.AsType[*translog.KeyFileError](err); !ok {
		t.Errorf("a file without a key: %v", err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ledger.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = translog.Open(translog.Options{Dir: dir, KeyFile: good, NoSync: true})
	if _, ok := errors.AsType[*translog.KeyFileError](err); err == nil || ok {
		t.Errorf("a damaged file of the ledger: %v", err)
	}
}
