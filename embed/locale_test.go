package embed_test

import (
	"testing"

	"daybook/embed"
)

// The start of a run records the locale and the time zone that its script sees.
func TestLocaleAndTimeZone(t *testing.T) {
	t.Parallel()
	for _, stateless := range []bool{false, true} {
		book := start(t, embed.Options{Runs: embed.RunOptions{Stateless: stateless}})
		e := run(t, book, embed.Script{Code: "const o = Intl.DateTimeFormat().resolvedOptions(); o.locale + ' ' + o.timeZone + ' ' + new Date(0).getTimezoneOffset()"})
		engine := started(t, book, e.ExecutionID).Engine
		if seen := engine.Locale + " " + engine.TimeZone + " 0"; deref(e.Result) != seen || seen != "en-US UTC 0" {
			t.Errorf("stateless %t: the script has %s, %s is recorded", stateless, deref(e.Result), seen)
		}
	}
}
