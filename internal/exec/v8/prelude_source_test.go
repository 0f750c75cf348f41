package v8_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// V8 reads the sources of the prelude and the platform as Latin-1. A template literal over several
// lines would lose its indentation, because indentation is removed.
func TestSourcesAreASCII(t *testing.T) {
	files, err := filepath.Glob("p*/*.js")
	if err != nil || len(files) == 0 {
		t.Fatalf("no sources: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for line := range strings.Lines(string(text)) {
			n++
			if strings.IndexFunc(line, func(r rune) bool { return r > 126 || r < 32 && r != '\n' }) >= 0 {
				t.Errorf("%s:%d: write %q with escapes", file, n, line)
			}
			code := strings.TrimLeft(line, " ")
			if strings.HasPrefix(code, "//") {
				continue
			}
			code, _, _ = strings.Cut(code, " // ")
			// A quoted backtick starts no template literal.
			code = strings.ReplaceAll(strings.ReplaceAll(code, "\"`\"", ""), "'`'", "")
			if strings.Count(code, "`")%2 != 0 || strings.Contains(code, "/*") && !strings.Contains(code, "*/") {
				t.Errorf("%s:%d: a literal or comment that spans lines: %q", file, n, line)
			}
		}
	}
}
