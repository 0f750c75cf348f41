package cli

import (
	"strings"
	"testing"
)

// Empty lines are a sign of life, and no events.
func TestCopyLines(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if n, err := copyLines(&out, strings.NewReader("{\"a\":1}\n\n\n{\"a\":2}\n"), true); n != 2 || err != nil || out.String() != "{\"a\":1}\n{\"a\":2}\n" {
		t.Errorf("%d, %v, %q", n, err, out.String())
	}
}
