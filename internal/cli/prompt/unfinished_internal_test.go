package prompt

import (
	"slices"
	"testing"
)

// Input continues while a bracket, a string or a comment is open. Input with other mistakes is run,
// and V8 reports them.
func TestUnfinished(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]bool{
		"1 + 1\n": false, "": false, "(1 +\n": true, "f(\n1)\n": false, "{ a: [1,\n": true, "if (x) {\n": true, "if (x) {\n}\n": false,
		"`a\n": true, "`a ${b +\n": true, "`a ${b}`\n": false, "`a ${ {c: `d` }.c }`\n": false, "`\\`\n": true,
		"'a(\n": false, "\"a\\\n": true, "\"a\\\nb\"\n": false, "'it\\'s ('\n": false,
		"// (\n": false, "/* (\n": true, "/* ( */\n": false, "1 /* { */ + (\n": true, "/**/\n": false, "/*/\n": true,
		"/[(]/.test(a)\n": false, "a / b / (\n": true, "x = /\\(/\n": false, "return /(/\n": false, "a[0] / (1\n": true,
		"}\n": false, "(]\n": false, "(}\n": false, "é(\n": true, "/* é */ (\n": true,
	} {
		if got := IsUnfinished(code); got != want {
			t.Errorf("%q: %t, want %t", code, got, want)
		}
	}
}

// Names that code declares are completed, and names that it only uses are not.
func TestDeclaredNames(t *testing.T) {
	t.Parallel()
	n := NewNames([]string{".exit", ".heap", ".help"}, nil, "")
	n.Declare("let one = 1, other = 2\nconst two=2; var three\nfunction four() {}\nclass Five {}\nasync function six() {}\nfunction* seven() {}\nglobalThis.eight = 8\nnine = 9\nten == 10\nused(one)\nif (nine) {}")
	for word, want := range map[string]bool{"one": true, "two": true, "three": true, "four": true, "Five": true, "six": true, "seven": true, "eight": true, "nine": true, "ten": false, "used": false} {
		if got := slices.Contains(n.Complete(word), word); got != want {
			t.Errorf("%s is completed: %t", word, got)
		}
	}
	if got := n.Complete(".h"); !slices.Equal(got, []string{".heap", ".help"}) {
		t.Errorf("commands: %q", got)
	}
	if got := n.Complete(""); got != nil {
		t.Errorf("nothing completes to %q", got)
	}
}
