package terminal

import (
	"strings"
	"testing"
	"time"
)

// The remaining time is estimated from the speed so far. Progress is shown only on a terminal.
func TestProgress(t *testing.T) {
	t.Parallel()
	var b writes
	now := time.Unix(1000, 0)
	p := NewProgress(&Screen{Out: &b, Terminal: true, Columns: 100}, "verified")
	p.now = func() time.Time { return now }
	p.Show(0, 1000)
	for range 10 {
		now = now.Add(time.Second)
		p.Show(uint64(now.Unix()-1000)*25, 1000)
	}
	p.Show(251, 1000) // too soon
	p.Clear()
	for _, want := range []string{"verified [                    ] 0 of 1000 events, 0 %\r", "[=                   ] 50 of 1000 events, 5 %, about 38.0 s left", "[=====               ] 250 of 1000 events, 25 %, about 30.0 s left\r\x1b[K"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("%q is not shown in %q", want, b)
		}
	}
	if strings.Contains(string(b), "251") || strings.Contains(string(b), " 25 of 1000 events, 2 %, about") {
		t.Errorf("too much is shown: %q", b)
	}
	var none writes
	quiet := NewProgress(&Screen{Out: &none}, "verified")
	quiet.Show(1, 2)
	quiet.Clear()
	if len(none) > 0 {
		t.Errorf("a pipe gets %q", none)
	}
}
