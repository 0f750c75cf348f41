package embed

import (
	"strings"
	"testing"
)

// With any number of descriptors, the listeners leave some of them to the ledger. The number
// of connections that the operator sets is applied or refused.
func TestConnectionBounds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		descriptors uint64
		asked       int
		want        bounds
		problem     string
	}{
		{descriptors: 1024, want: bounds{512, 128, 128}},
		{descriptors: 256, want: bounds{128, 32, 32}},
		{descriptors: 1 << 20, want: bounds{4096, 512, 1024}},
		{descriptors: 1 << 62, want: bounds{4096, 512, 1024}},
		{descriptors: 1024, asked: 100, want: bounds{100, 128, 128}},
		{descriptors: 1 << 20, asked: 100_000, want: bounds{100_000, 512, 1024}},
		{descriptors: 1024, asked: 513, problem: "choose at most 512, or raise the limit (ulimit -n 1028)"},
	} {
		got, err := connectionBounds(test.descriptors, test.asked)
		if test.problem != "" {
			if err == nil || !strings.Contains(err.Error(), test.problem) {
				t.Errorf("%d of %d: %v, want %q", test.asked, test.descriptors, err, test.problem)
			}
			continue
		}
		if err != nil || got != test.want {
			t.Errorf("%d of %d: %+v, %v; want %+v", test.asked, test.descriptors, got, err, test.want)
		}
	}
}
