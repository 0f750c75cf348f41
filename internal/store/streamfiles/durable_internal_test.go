package streamfiles

import (
	"os"
	"path/filepath"
	"testing"
)

// A configuration that cannot be written leaves the old files, and no other file.
func TestFailingWriteOfAConfiguration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{metaFile, metaSum} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	d := storedConfig{raw: []byte("new"), sum: []byte("new")}
	if err := d.write(dir); err == nil {
		t.Error("directories were replaced")
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 2 || !list[0].IsDir() || !list[1].IsDir() {
		t.Errorf("the directory holds %v, %v", list, err)
	}
	dir = t.TempDir()
	for _, name := range []string{metaFile, metaSum} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(dir, name+".new"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.write(dir); err == nil {
		t.Error("the files were written through directories")
	}
	if got, err := readStoredConfig(dir); err != nil || string(got.raw) != "old" || string(got.sum) != "old" {
		t.Errorf("%q, %q, %v", got.raw, got.sum, err)
	}
}

// A file is copied once, unchanged. A failed copy leaves nothing.
func TestCopyAside(t *testing.T) {
	t.Parallel()
	dir, aside := t.TempDir(), t.TempDir()
	file := filepath.Join("a", "b")
	if err := copyAside(dir, aside, file); err != nil {
		t.Errorf("a missing file: %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "a"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := copyAside(dir, aside, file); err == nil {
		t.Error("a directory was copied")
	}
	if list, err := os.ReadDir(filepath.Join(aside, "a")); err != nil || len(list) != 0 {
		t.Errorf("the directory holds %v, %v", list, err)
	}
	if err := os.Remove(filepath.Join(dir, file)); err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"as it was found", "as it was mended"} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := copyAside(dir, aside, file); err != nil {
			t.Fatal(err)
		}
	}
	if raw, err := os.ReadFile(filepath.Join(aside, file)); err != nil || string(raw) != "as it was found" {
		t.Errorf("%q, %v", raw, err)
	}
}
