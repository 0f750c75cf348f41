package arch_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var namedFile = regexp.MustCompile("`((?:[a-z0-9_]+/)+[a-z0-9_]+\\.go)`")

// The files and directories that docs/ARCHITECTURE.md names exist.
func TestArchitectureNamesFiles(t *testing.T) {
	t.Parallel()
	const root = "../../.."
	raw, err := os.ReadFile(filepath.Join(root, "docs", "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := namedFile.FindAllSubmatch(raw, -1)
	if len(named) < 5 {
		t.Fatalf("docs/ARCHITECTURE.md names only %d files", len(named))
	}
	for _, m := range named {
		if _, err := os.Stat(filepath.Join(root, string(m[1]))); err != nil {
			t.Errorf("docs/ARCHITECTURE.md: %v", err)
		}
	}
}

var codePath = regexp.MustCompile("`((?:[a-z0-9_.]+/)+[a-z0-9_.]*|[a-z]+)`")

// The files and directories in the last column of the glossary's tables, and those that
// CONTRIBUTING.md names with a slash, exist.
func TestGuidesNameFiles(t *testing.T) {
	t.Parallel()
	const root = "../../.."
	for _, doc := range []struct {
		path string
		text *regexp.Regexp // matches the text that contains the paths
		want int
	}{
		{"docs/glossary.md", regexp.MustCompile(`(?m)\| ([^|]*) \|$`), 60},
		{"CONTRIBUTING.md", regexp.MustCompile("(`[a-z0-9_.]+/[a-z0-9_./]*`)"), 30},
	} {
		raw, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(doc.path)))
		if err != nil {
			t.Fatal(err)
		}
		named := 0
		for _, part := range doc.text.FindAllSubmatch(raw, -1) {
			for _, m := range codePath.FindAllSubmatch(part[1], -1) {
				if strings.HasPrefix(string(m[1]), "bin/") {
					continue // a built file
				}
				named++
				if _, err := os.Stat(filepath.Join(root, string(m[1]))); err != nil {
					t.Errorf("%s: %v", doc.path, err)
				}
			}
		}
		if named < doc.want {
			t.Errorf("%s names only %d paths", doc.path, named)
		}
	}
}
