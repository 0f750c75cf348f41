package cli

import (
	"strings"
	"testing"

	"daybook/internal/cli/terminal"
)

// Empty lines are heartbeats and not events.
func TestCopyLines(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if n, err := copyLines(&terminal.Screen{Out: &out}, strings.NewReader("{\"a\":1}\n\n\n{\"a\":2}\n"), true, func([]byte) {}); n != 2 || err != nil || out.String() != "{\"a\":1}\n{\"a\":2}\n" {
		t.Errorf("%d, %v, %q", n, err, out.String())
	}
}

// A replay shows its progress in positions.
func TestReplayProgress(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	p := terminal.NewProgress(&terminal.Screen{Out: &b, Terminal: true, Columns: 100}, "replayed")
	p.Unit = "positions"
	each := positionProgress(p, "109")
	each([]byte(`{"sequence":"90"}`))
	if want := "replayed [=                   ] 1 of 20 positions, 5 %"; !strings.Contains(b.String(), want) {
		t.Errorf("%q, want %q", b.String(), want)
	}
	positionProgress(p, "")([]byte(`{"sequence":"90"}`)) // of a server that does not return the last position
}
