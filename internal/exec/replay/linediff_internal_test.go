package replay

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"daybook/events"
)

func logOf(lines ...string) *lineLog {
	l := &lineLog{}
	for _, text := range lines {
		l.add(events.Line{Text: text})
	}
	return l
}

func describeDiff(d OutputDiff) string {
	signs := map[LineOp]string{LineEqual: " ", LineRemoved: "-", LineAdded: "+"}
	var b strings.Builder
	for _, c := range d.Changes {
		fmt.Fprintf(&b, "%s%d,%d %s|", signs[c.Op], c.Recorded, c.New, c.Text)
	}
	return b.String()
}

func TestDiffLines(t *testing.T) {
	for _, test := range []struct{ a, b, want string }{
		{"", "", ""},
		{"a b c", "a b c", ""},
		{"a", "b", "-1,0 a|+0,1 b|"},
		{"", "x y", "+0,1 x|+0,2 y|"},
		{"x y", "", "-1,0 x|-2,0 y|"},
		{"1 2 3 4 5 6 7 8 9", "1 2 3 4 x 6 7 8 9", " 2,2 2| 3,3 3| 4,4 4|-5,0 5|+0,5 x| 6,6 6| 7,7 7| 8,8 8|"},
		{"1 2 3 4 5", "2 3 4 5 6", "-1,0 1| 2,1 2| 3,2 3| 4,3 4| 5,4 5|+0,5 6|"},
		{"a b c d e f g h i j", "a X c d e f g h Y j", " 1,1 a|-2,0 b|+0,2 X| 3,3 c| 4,4 d| 5,5 e| 6,6 f| 7,7 g| 8,8 h|-9,0 i|+0,9 Y| 10,10 j|"},
	} {
		d := diffLines(logOf(strings.Fields(test.a)...), logOf(strings.Fields(test.b)...))
		if got := describeDiff(d); got != test.want || d.Equal != (test.want == "") || d.Cut {
			t.Errorf("%q to %q: %s, %+v", test.a, test.b, got, d)
		}
	}
}

// A difference, applied to the first text, gives the second one, and is no longer than needed.
func TestDiffEdits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		a, b := make([]int, r.IntN(12)), make([]int, r.IntN(12))
		for i := range a {
			a[i] = r.IntN(4)
		}
		for i := range b {
			b[i] = r.IntN(4)
		}
		edits := diffEdits(len(a), len(b), func(i, j int) bool { return a[i] == b[j] })
		var made []int
		at, cost := 0, 0
		for _, e := range edits {
			made = append(append(made, a[at:e.aFrom]...), b[e.bFrom:e.bTo]...)
			at = e.aTo
			cost += e.aTo - e.aFrom + e.bTo - e.bFrom
		}
		made = append(made, a[at:]...)
		if fmt.Sprint(made) != fmt.Sprint(b) || cost != len(a)+len(b)-2*commonLength(a, b) {
			t.Fatalf("%v to %v: %v gives %v", a, b, edits, made)
		}
	}
}

// commonLength returns the length of the longest common subsequence.
func commonLength(a, b []int) int {
	if len(a) == 0 || len(b) == 0 {
		return 0
	}
	if a[0] == b[0] {
		return 1 + commonLength(a[1:], b[1:])
	}
	best := make([][]int, len(a)+1)
	for i := range best {
		best[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				best[i][j] = best[i+1][j+1] + 1
			} else {
				best[i][j] = max(best[i+1][j], best[i][j+1])
			}
		}
	}
	return best[0][0]
}

// Long outputs are compared within limits, and a difference beyond what is kept is noticed.
func TestDiffOfLongOutputs(t *testing.T) {
	long := func(last string) *lineLog {
		l := &lineLog{}
		for i := range maxDiffLines + 10 {
			l.add(events.Line{Text: fmt.Sprint(i)})
		}
		l.add(events.Line{Text: last})
		return l
	}
	if d := diffLines(long("a"), long("a")); !d.Equal || !d.Cut || d.New != maxDiffLines+11 {
		t.Errorf("equal: %+v", d)
	}
	if d := diffLines(long("a"), long("b")); d.Equal || !d.Cut || len(d.Changes) != 0 {
		t.Errorf("different: %+v", d)
	}
	wide := func(end string) *lineLog {
		l := &lineLog{}
		l.add(events.Line{Text: strings.Repeat("x", maxStepText), Continued: true})
		l.add(events.Line{Text: end})
		return l
	}
	if d := diffLines(wide("a"), wide("b")); d.Equal || !d.Cut || len(d.Changes) != 2 || len(d.Changes[0].Text) > maxStepText+10 {
		t.Errorf("a long line: %+v", d)
	}
	all := func(word string) *lineLog {
		l := &lineLog{}
		for i := range maxDiffLines {
			l.add(events.Line{Text: fmt.Sprint(word, i)})
		}
		return l
	}
	if d := diffLines(all("a"), all("b")); d.Equal || !d.Cut || len(d.Changes) != maxChanges || d.Changes[0].Op != LineRemoved {
		t.Errorf("all lines: %d, %+v", len(d.Changes), d.Changes[0])
	}
	big := &lineLog{}
	for range 3000 {
		big.add(events.Line{Text: strings.Repeat("y", 4000)})
	}
	if big.bytes > maxDiffBytes+len("…") || !big.cut {
		t.Errorf("%d bytes are kept", big.bytes)
	}
	d := diffLines(logOf("a", "b"), func() *lineLog {
		l := &lineLog{}
		l.add(events.Line{Text: "a", Level: events.LevelLog})
		l.add(events.Line{Text: "b", Level: events.LevelError, Continued: true})
		return l
	}())
	if got := describeDiff(d); got != " 1,1 a|-2,0 b|+0,2 b|" {
		t.Errorf("levels: %s", got)
	}
}
