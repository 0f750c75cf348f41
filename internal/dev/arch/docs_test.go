package arch_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

var namedFile = regexp.MustCompile("`((?:[a-z0-9_]+/)+[a-z0-9_]+\\.go)`")

// The files and directories that the architecture names exist.
func TestArchitectureNamesFiles(t *testing.T) {
	t.Parallel()
	const root = "../../.."
	raw, err := os.ReadFile(filepath.Join(root, "docs", "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := namedFile.FindAllSubmatch(raw, -1)
	if len(named) < 5 {
		t.Fatalf("it names %d files", len(named))
	}
	for _, m := range named {
		if _, err := os.Stat(filepath.Join(root, string(m[1]))); err != nil {
			t.Errorf("docs/ARCHITECTURE.md: %v", err)
		}
	}
}
