package access

import (
	"os"
	"path/filepath"
	"testing"
)

// If the rename fails, the old file stays, and no other file is left.
func TestFailingReplace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "tokens")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := replace(path, []byte("new")); err == nil {
		t.Error("a directory was replaced")
	}
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != 1 || !list[0].IsDir() {
		t.Errorf("the directory holds %v, %v", list, err)
	}
}
