package exported_test

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"daybook/internal/store/exported"
	"daybook/proof"
)

// Open refuses events that are not the verified ones.
func TestOpenChangedEvents(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, proof.EventsFile)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	empty := sha256.Sum256(nil)
	s, err := exported.Open(dir, empty[:], 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := exported.Open(dir, make([]byte, sha256.Size), 0, nil); err == nil || !strings.Contains(err.Error(), "have changed") {
		t.Errorf("another hash: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(os.DevNull, path); err != nil {
		t.Fatal(err)
	}
	if _, err := exported.Open(dir, empty[:], 0, nil); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a device: %v", err)
	}
}
