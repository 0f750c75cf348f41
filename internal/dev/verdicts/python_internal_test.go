package verdicts

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Only a missing interpreter lets tests be skipped. One that fails does not.
func TestAskPython(t *testing.T) { // not in parallel: it sets a variable
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if path, err := askPython(); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("without python3: %q, %v", path, err)
	}
	for _, script := range []string{"exit 1", "echo"} {
		if err := os.WriteFile(filepath.Join(dir, "python3"), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		if path, err := askPython(); err == nil || errors.Is(err, exec.ErrNotFound) {
			t.Errorf("%s: %q, %v", script, path, err)
		}
	}
}
