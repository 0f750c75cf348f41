package keyfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"daybook/internal/keyfile"
	"daybook/proof"
)

func TestFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new", "key")
	if _, err := keyfile.Read(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("read no file: %v", err)
	}
	skey, vkey, err := keyfile.Create(path, "daybook/a")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
	got, err := keyfile.Read(path)
	if err != nil || got != skey {
		t.Errorf("read %q, %v", got, err)
	}
	signer, parsed, err := proof.ParseKey(got)
	if err != nil || parsed != vkey || signer.Name() != "daybook/a" {
		t.Errorf("the key is %s, want %s: %v", parsed, vkey, err)
	}
	if _, _, err := keyfile.Create(path, "daybook/b"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("create it again: %v", err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := keyfile.Read(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("read a file that others can read: %v", err)
	}
}
