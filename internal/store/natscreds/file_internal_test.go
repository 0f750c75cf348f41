package natscreds

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A rename that fails leaves the file at the path unchanged, and no other file. The
// list is written first, so a credential whose file cannot be written is listed.
func TestFailingReplace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "reports.creds"), 0o700); err != nil {
		t.Fatal(err)
	}
	c, err := Create(dir, "reports", "acme", time.Now())
	if err == nil || c.File(dir) != filepath.Join(dir, "reports.creds") {
		t.Errorf("a directory was replaced: %s, %v", c.File(dir), err)
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	if len(list) != 3 || !list[2].IsDir() { // plus the list and its lock
		t.Errorf("the directory holds %q", names)
	}
}
