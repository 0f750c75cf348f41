package runfiles_test

import (
	"fmt"
	"strings"
	"testing"

	"daybook/internal/modules/runfiles"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	if err := runfiles.Check(map[string]string{"util.ts": "1", "lib/deep/a-b_c.mjs": "", "data.json": "{}", "ü.js": ""}); err != nil {
		t.Error(err)
	}
	for _, name := range []string{
		"", "/etc/passwd.js", "../a.js", "a/../b.js", "./a.js", "a//b.js", "a.txt", "a", "a\x00.js", "a\n.js", `a\b.js`, "a#b.js", "a b.js", "npm:a.js",
		"\xff.js", strings.Repeat("a", 600) + ".js", "..", "a.js/",
	} {
		if err := runfiles.Check(map[string]string{name: "1"}); err == nil {
			t.Errorf("%q is accepted", name)
		}
	}
	many := map[string]string{}
	for i := range 257 {
		many[fmt.Sprintf("f%d.js", i)] = ""
	}
	for what, files := range map[string]map[string]string{
		"at most 256":         many,
		"at most 16777216":    {"a.js": strings.Repeat("x", runfiles.MaxBytes)},
		"without NUL":         {"a.js": "\x00"},
		"UTF-8 without NUL c": {"a.js": "\xff"},
	} {
		if err := runfiles.Check(files); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want %s", err, what)
		}
	}
}
