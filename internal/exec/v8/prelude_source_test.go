package v8_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The source of the prelude is part of every saved heap. With one character beyond ASCII, V8 would
// store each of its characters in two bytes. A template literal over several lines would lose its
// indentation, because preludeSource removes indentation.
func TestPreludeSourceIsLean(t *testing.T) {
	files, err := filepath.Glob("prelude/*.js")
	if err != nil || len(files) == 0 {
		t.Fatalf("no prelude: %v", err)
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
