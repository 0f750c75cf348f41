package modules

import (
	"strings"
	"testing"

	"daybook/events"
	"daybook/internal/exec/bundle"
)

// TestChoose chooses among admitted versions; + marks those that were asked for by name.
func TestChoose(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ admitted, specifier, want string }{
		{"1.0.0+ 2.0.0+ 1.9.0+", "zod", "2.0.0"},
		{"1.0.0+ 2.0.0", "zod", "1.0.0"},
		{"1.0.0+ 2.0.0-b+", "zod", "1.0.0"},
		{"2.0.0-b+ 1.0.0+", "zod", "1.0.0"},
		{"2.0.0-b+ 1.0.0", "zod", "2.0.0-b"},
		{"2.0.0-b.2 2.0.0-b.10 2.0.0-b.3", "zod", "2.0.0-b.10"},
		{"1.0.0+ 2.0.0-b+", "npm:zod@2.0.0-b", "2.0.0-b"},
		{"1.0.0+ 2.0.0-b+", "npm:zod@2", ""},
		{"1.0.0+ 1.5.0", "npm:zod@^1.2", "1.5.0"},
	} {
		var list []events.AdmittedPackage
		for text := range strings.FieldsSeq(c.admitted) {
			version, direct := strings.CutSuffix(text, "+")
			list = append(list, events.AdmittedPackage{Name: "zod", Version: version, Direct: direct})
		}
		want := "zod@" + c.want
		if c.want == "" {
			want = ""
		}
		if id, why := choose(list, bundle.Parse(c.specifier)); id != want || (why == "") != (want != "") {
			t.Errorf("%s of %s: %s (%s), want %s", c.specifier, c.admitted, id, why, c.want)
		}
	}
}
