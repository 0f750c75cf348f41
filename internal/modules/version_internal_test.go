package modules

import (
	"strings"
	"testing"
)

// TestRanges checks that the library reads ranges as npm does.
func TestRanges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, in, out string }{
		{"", "0.0.1 9.9.9", "1.0.0-a"},
		{"^1.2.3", "1.2.3 1.9.0", "1.2.2 2.0.0 2.0.0-a 1.3.0-a"},
		{"^1.2.3-b.2", "1.2.3-b.2 1.2.3-b.4 1.2.3 1.5.0", "1.2.3-b.1 1.2.4-b.5 2.0.0"},
		{"^0.2.3", "0.2.3 0.2.9", "0.3.0 1.0.0"},
		{"~1.2.3", "1.2.3 1.2.9", "1.3.0"},
		{">= 1.2.3 < 2.0.0", "1.2.3", "2.0.0"},
		{"1.x || >=2.5.0 || 5.0.0 - 7.2.3", "1.2.3 2.5.0 6.0.0", "2.4.9 0.1.0"},
	} {
		r, err := parseRange(c.text)
		if err != nil {
			t.Error(err)
			continue
		}
		for list, want := range map[string]bool{c.in: true, c.out: false} {
			for text := range strings.FieldsSeq(list) {
				if v, ok := parseVersion(text); !ok || r.MatchVersion(v) != want {
					t.Errorf("%q has %s: %t, want %t", c.text, text, r.MatchVersion(v), want)
				}
			}
		}
	}
	for _, bad := range []string{"latest", "1.2.3.4", "^", "git+https://x/y", strings.Repeat("1 ", 200)} {
		if _, err := parseRange(bad); err == nil {
			t.Errorf("%q is a range", bad)
		}
	}
	for _, bad := range []string{"", "1.2.x", "a.b.c", "1.2.3-a..b", "1", "1.2", "v1.2.3", "=1.2.3", " 1.2.3", "1.2.3 ", "1.2.3\n", "1.2.3-a/b", "1.2.3+x/y", "1.2.3-\x1b", "1.2.3.4", "1.2.3-a b", "1.2.3@x", "1.2.3-é", strings.Repeat("1", 300)} {
		if _, ok := parseVersion(bad); ok {
			t.Errorf("%q is a version", bad)
		}
	}
}
