package web_test

import (
	"strings"
	"testing"

	"daybook/internal/web"
)

func TestTooManyValues(t *testing.T) {
	t.Parallel()
	const n = web.MaxJSONValues
	for name, c := range map[string]struct {
		text string
		want bool
	}{
		"nothing":           {"", false},
		"a list":            {"[" + strings.Repeat("1,", n-2) + "1]", false},
		"a longer list":     {"[" + strings.Repeat("1,", n) + "1]", true},
		"members":           {"{" + strings.Repeat(`"a":1,`, n) + `"b":1}`, true},
		"empty objects":     {"[" + strings.Repeat("{}", n) + "]", true},
		"commas in a text":  {`{"code":"` + strings.Repeat(`a,\"[{`, n) + `"}`, false},
		"commas behind one": {`["\\",` + strings.Repeat("1,", n) + "1]", true},
		"an open text":      {`["` + strings.Repeat(",", 2*n) + `\`, false},
	} {
		if got := web.TooManyValues([]byte(c.text)); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
