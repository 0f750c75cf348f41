package keyring

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// If a key file cannot be replaced, the old one stays, and no other file is left.
func TestFailingWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "a"+keyFileSuffix), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := r.write(entry{ID: "a", Tenant: "t", Session: "s", Key: strings.Repeat("00", keyBytes), State: stateInUse}); err == nil {
		t.Error("a directory was replaced")
	}
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != 1 || !list[0].IsDir() {
		t.Errorf("the directory holds %v, %v", list, err)
	}
}
