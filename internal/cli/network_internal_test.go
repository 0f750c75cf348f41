package cli

import (
	"strings"
	"testing"
)

// A network that is none is refused with a text that shows the right form.
func TestNetwork(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"10.0.0.0/8":  "",
		"fd00::/8":    "",
		"10.0.0.1":    "such as 10.0.0.1/32 for this address alone",
		"fd00::1":     "such as fd00::1/128 for this address alone",
		"10.0.0":      "such as 10.0.0.0/8",
		"10.0.0.1/99": "such as 10.0.0.0/8",
		"":            "such as 10.0.0.0/8",
	} {
		var n network
		err := n.UnmarshalText([]byte(text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) || err == nil && n.String() != text {
			t.Errorf("%q: %v, %v", text, n, err)
		}
	}
}
