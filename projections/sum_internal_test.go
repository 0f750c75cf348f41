package projections

import (
	"os"
	"path/filepath"
	"testing"
)

// A checksum that cannot be written leaves the file beside the projections as it is.
func TestFailingChecksumLeavesTheOldOne(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "projections.db")
	if err := os.Mkdir(path+checksumSuffix, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := writeChecksumFile(path, "1"); err == nil {
		t.Error("a directory was replaced")
	}
	if err := os.Remove(path + checksumSuffix); err != nil {
		t.Fatal(err)
	}
	if err := writeChecksumFile(path, "1"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path+checksumSuffix+".new", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := writeChecksumFile(path, "2"); err == nil {
		t.Error("the checksum was written through a directory")
	}
	if raw, err := os.ReadFile(path + checksumSuffix); err != nil || string(raw) != checksumFormat+"1\n" {
		t.Errorf("the file holds %q, %v", raw, err)
	}
}
