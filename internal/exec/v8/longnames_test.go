package v8_test

import (
	"fmt"
	"strings"
	"testing"

	"daybook/internal/exec/v8"
)

// Names of properties and literals have any length, also in heaps that were restored and saved again.
func TestLongNamesAreSaved(t *testing.T) {
	for _, n := range []int{140_000, 3_000_000} {
		name, literal := strings.Repeat("n", n), strings.Repeat("x", n)
		first := run(t, v8.Config{}, "var o = { '"+name+"': 41 }; var l = '"+literal+"'; 0")
		second := run(t, v8.Config{Heap: first.heap}, "++o['n'.repeat(l.length)]")
		third := run(t, v8.Config{Heap: second.heap}, "[o['n'.repeat(l.length)], Object.keys(o)[0].length, l.length].join()")
		if want := fmt.Sprintf("42,%d,%d", n, n); second.text != "42" || third.text != want {
			t.Errorf("%s and %s, want 42 and %s", second.text, third.text, want)
		}
	}
}
