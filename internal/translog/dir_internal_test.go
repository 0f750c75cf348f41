package translog

import (
	"os"
	"path/filepath"
	"testing"
)

// A file that cannot be written stays as it is, whether or not it is synced.
func TestFailingReplaceLeavesTheOldFile(t *testing.T) {
	t.Parallel()
	for _, sync := range []bool{true, false} {
		dir := filepath.Join(t.TempDir(), "made")
		path := filepath.Join(dir, "file")
		if err := replaceFile(path, []byte("old"), 0o600, sync); err != nil {
			t.Fatalf("sync %v: a missing directory: %v", sync, err)
		}
		if err := os.Mkdir(path+".new", 0o700); err != nil {
			t.Fatal(err)
		}
		if err := replaceFile(path, []byte("new"), 0o600, sync); err == nil {
			t.Errorf("sync %v: the file was written through a directory", sync)
		}
		if raw, err := os.ReadFile(path); err != nil || string(raw) != "old" {
			t.Errorf("sync %v: the file holds %q, %v", sync, raw, err)
		}
		if err := os.Remove(path + ".new"); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(path+"2", 0o700); err != nil {
			t.Fatal(err)
		}
		if err := replaceFile(path+"2", []byte("new"), 0o600, sync); err == nil {
			t.Errorf("sync %v: a directory was replaced", sync)
		}
		if list, err := os.ReadDir(dir); err != nil || len(list) != 2 || !list[1].IsDir() {
			t.Errorf("sync %v: the directory holds %v, %v", sync, list, err)
		}
	}
}
