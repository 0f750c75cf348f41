package terminal

import (
	"encoding/json"
	"testing"
)

func TestVisible(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain – ünï ✓ 日本":                      "plain – ünï ✓ 日本",
		"a\x1b[2J\a\r\x7f":                      `a\x1b[2J\x07\r\u007f`,
		"\u009b\u0085":                          `\u009b\u0085`,
		"\xff\xe2\x82":                          `\xff\xe2\x82`,
		"\u202ea\u2066\u2069\u2028\u2029\u200e": `\u202ea\u2066\u2069\u2028\u2029\u200e`,
		"ad\u200bm\u200din\ufeff\u00ad":         `ad\u200bm\u200din\ufeff\u00ad`,
		"\U000e0041\U000e0100\u3164":            `\u{e0041}\u{e0100}\u3164`,
		"👩\u200d💻 ❤\ufe0f 1\ufe0f\u20e3 👩🏽\u200d🚀":   "👩\u200d💻 ❤\ufe0f 1\ufe0f\u20e3 👩🏽\u200d🚀", // emoji
		"می\u200cخواهم क्\u200dष":                    "می\u200cخواهم क्\u200dष",                  // Persian, Hindi
		"👩\u200dx admin\ufe0f 1\ufe0f ❤\ufe0f\ufe0f": "👩\\u200dx admin\\ufe0f 1\\ufe0f ❤\ufe0f\\ufe0f",
		"\u0601": "\u0601", // a visible sign
	} {
		if got := Visible(text, "\n\t"); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
		raw, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		var direct, escaped string
		if json.Unmarshal(raw, &direct) != nil || json.Unmarshal([]byte(visibleJSON(string(raw))), &escaped) != nil || direct != escaped {
			t.Errorf("JSON of %q changes to %q", text, escaped)
		}
	}
}
