package translog_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
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

// The key is created once, with mode 0600. A key file is used only if its key has the origin of this ledger.
func TestKeys(t *testing.T) {
	t.Parallel()
	dir, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "secret", "key")
	open := func(dir, key string) (*translog.Log, error) {
		return translog.Open(translog.Options{Dir: dir, KeyFile: key})
	}
	log, err := open(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's file: %v, %v", info.Mode(), err)
	}
	again, err := open(dir, "")
	if err != nil || again.VKey() != log.VKey() || again.Origin() != log.Origin() {
		t.Errorf("the reopened log has another key: %v", err)
	}
	moved, err := open(dir, elsewhere)
	if err != nil || moved.Origin() != log.Origin() || moved.VKey() == log.VKey() || len(moved.VKeys()) != 2 {
		t.Errorf("a new key elsewhere: %v, keys %v", err, moved.VKeys())
	}
	if _, err := open(t.TempDir(), elsewhere); err != nil {
		t.Errorf("a new ledger takes its name from the key: %v", err)
	}
	foreign := t.TempDir()
	if _, err := open(foreign, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := open(foreign, elsewhere); err == nil || !strings.Contains(err.Error(), log.Origin()) {
		t.Errorf("another ledger's key: %v, want an error that names it", err)
	}
	if err := os.Chmod(elsewhere, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := open(dir, elsewhere); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a key that others can read: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "key"), []byte("nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := open(dir, ""); err == nil || !strings.Contains(err.Error(), "holds no signing key") {
		t.Errorf("a file without a key: %v", err)
	}
}
