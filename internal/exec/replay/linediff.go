package replay

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"hash"

	"daybook/events"
)

// Limits of a comparison of lines.
const (
	// maxDiffLines is the maximum number of lines of each output that are compared.
	maxDiffLines = 20000
	// maxDiffBytes is the maximum size of the text of each output that is kept, in bytes. Each
	// line is kept up to maxStepText bytes, and compared by its hash.
	maxDiffBytes = 4 << 20
	// maxEdits is the maximum number of lines that differ for which the smallest difference is
	// computed, in time and memory of its square.
	maxEdits = 1000
	// maxChanges and maxChangeBytes limit the lines of a difference.
	maxChanges     = 2000
	maxChangeBytes = 1 << 20
	// diffContext is the number of equal lines around a difference.
	diffContext = 3
)

// OutputDiff is the difference of the output of two runs, by lines. Lines are equal if their
// level and text are; their times are not compared.
type OutputDiff struct {
	// Recorded and New count the lines of both runs.
	Recorded, New int64
	// Equal is true if all lines are equal.
	Equal bool
	// Changes are the lines that differ, with equal lines around them.
	Changes []LineChange
	// Cut is true if the outputs are too long to be compared completely, or if Changes or the
	// text of a line is cut.
	Cut bool
}

// LineChange is a line of an OutputDiff.
type LineChange struct {
	Op LineOp
	// Recorded and New are the numbers of the line in the two runs, from 1; 0 for a line that
	// the run does not have.
	Recorded, New int64
	Level         events.Level
	Text          string
}

// LineOp is what became of a line.
type LineOp string

// The values of LineOp.
const (
	LineEqual   LineOp = "equal"
	LineRemoved LineOp = "removed" // only in the recorded run
	LineAdded   LineOp = "added"   // only in the new run
)

// lineLog collects the lines of a run.
type lineLog struct {
	lines  []keptLine
	count  int64
	bytes  int
	cut    bool      // lines are missing, or the text of a line is shortened
	beyond hash.Hash // of the output that is not in lines
	open   hash.Hash // of the line whose end has not come; nil for none
}

type keptLine struct {
	level events.Level
	text  string
	sum   string // of level and text
}

// add adds a piece of a line.
func (l *lineLog) add(piece events.Line) {
	level := cmp.Or(piece.Level, events.LevelLog)
	isFirst := l.open == nil
	if isFirst {
		l.count++
		l.open = sha256.New()
		l.open.Write([]byte(level + "\n"))
	}
	l.open.Write([]byte(piece.Text))
	switch {
	case l.count > maxDiffLines:
		if l.beyond == nil {
			l.beyond = sha256.New()
		}
		l.beyond.Write([]byte(string(level) + "\n" + piece.Text + "\n"))
		l.cut = true
	case isFirst:
		l.lines = append(l.lines, keptLine{level: level})
		l.keep(piece.Text)
	default:
		l.keep(piece.Text)
	}
	if piece.Continued {
		return
	}
	l.end()
}

// keep appends text to the last line, up to the limits.
func (l *lineLog) keep(text string) {
	last := &l.lines[len(l.lines)-1]
	room := min(maxStepText-len(last.text), maxDiffBytes-l.bytes)
	kept, cut := text, false
	if len(text) > room {
		if kept, cut = shorten(text, max(room, 0)); room < 0 {
			kept = ""
		}
	}
	l.cut = l.cut || cut
	last.text += kept
	l.bytes += len(kept)
}

// end ends the line whose end has not come.
func (l *lineLog) end() {
	if l.open == nil {
		return
	}
	if n := len(l.lines); n > 0 && l.count <= maxDiffLines {
		l.lines[n-1].sum = hex.EncodeToString(l.open.Sum(nil))
	}
	l.open = nil
}

// diffLines compares two outputs, which have ended.
func diffLines(recorded, replaced *lineLog) OutputDiff {
	recorded.end()
	replaced.end()
	d := OutputDiff{Recorded: recorded.count, New: replaced.count, Cut: recorded.cut || replaced.cut}
	a, b := recorded.lines, replaced.lines
	same := func(i, j int) bool { return a[i].sum == b[j].sum }
	edits := diffEdits(len(a), len(b), same)
	d.Equal = recorded.count == replaced.count && len(edits) == 0 && sumOf(recorded.beyond) == sumOf(replaced.beyond)
	d.collect(a, b, edits)
	return d
}

func sumOf(h hash.Hash) string {
	if h == nil {
		return ""
	}
	return string(h.Sum(nil))
}

// edit replaces lines of the first output from aFrom to aTo by those of the second one from
// bFrom to bTo.
type edit struct{ aFrom, aTo, bFrom, bTo int }

// collect sets Changes.
func (d *OutputDiff) collect(a, b []keptLine, edits []edit) {
	bytes := 0
	add := func(op LineOp, i, j int, l keptLine) bool {
		if len(d.Changes) >= maxChanges || bytes+len(l.text) > maxChangeBytes {
			d.Cut = true
			return false
		}
		bytes += len(l.text)
		d.Changes = append(d.Changes, LineChange{Op: op, Recorded: int64(i + 1), New: int64(j + 1), Level: l.level, Text: l.text})
		return true
	}
	shown := 0 // lines of a before it are shown, or are not to be shown
	for n, e := range edits {
		for i := max(shown, e.aFrom-diffContext); i < e.aFrom; i++ {
			if !add(LineEqual, i, e.bFrom-(e.aFrom-i), a[i]) {
				return
			}
		}
		for i := e.aFrom; i < e.aTo; i++ {
			if !add(LineRemoved, i, -1, a[i]) {
				return
			}
		}
		for j := e.bFrom; j < e.bTo; j++ {
			if !add(LineAdded, -1, j, b[j]) {
				return
			}
		}
		until := min(e.aTo+diffContext, len(a))
		if n+1 < len(edits) {
			until = min(until, edits[n+1].aFrom)
		}
		for i := e.aTo; i < until; i++ {
			if !add(LineEqual, i, e.bTo+(i-e.aTo), a[i]) {
				return
			}
		}
		shown = until
	}
}

// diffEdits returns the edits that turn n lines into m lines, in order, by the algorithm of
// Myers: the fewest lines that are removed or added. If more than maxEdits differ, all lines
// between the first and the last difference are one edit.
func diffEdits(n, m int, same func(i, j int) bool) []edit {
	start := 0
	for start < n && start < m && same(start, start) {
		start++
	}
	end := 0
	for end < n-start && end < m-start && same(n-1-end, m-1-end) {
		end++
	}
	a, b := n-start-end, m-start-end
	if a == 0 && b == 0 {
		return nil
	}
	whole := []edit{{start, start + a, start, start + b}}
	if a == 0 || b == 0 {
		return whole
	}
	path, ok := shortestEdit(a, b, func(i, j int) bool { return same(start+i, start+j) })
	if !ok {
		return whole
	}
	// path has the single steps from the end to the start; join those that touch.
	var edits []edit
	for k := len(path) - 1; k >= 0; k-- {
		p := path[k]
		step := edit{start + p.i, start + p.i + p.removed, start + p.j, start + p.j + 1 - p.removed}
		if last := len(edits) - 1; last >= 0 && edits[last].aTo == step.aFrom && edits[last].bTo == step.bFrom {
			edits[last].aTo, edits[last].bTo = step.aTo, step.bTo
			continue
		}
		edits = append(edits, step)
	}
	return edits
}

// editStep removes line i of the first text (removed is 1) or adds line j of the second one
// (removed is 0).
type editStep struct{ i, j, removed int }

// shortestEdit returns the steps of a shortest edit from the last one to the first one. ok is
// false if it has more than maxEdits.
func shortestEdit(n, m int, same func(i, j int) bool) (steps []editStep, ok bool) {
	most := min(n+m, maxEdits)
	// furthest[k+most+1] is the largest i that is reached on diagonal k = i - j.
	furthest := make([]int32, 2*most+3)
	var trace [][]int32 // the diagonals -d to d of furthest before each round d
	at := func(k int) int { return k + most + 1 }
	for d := 0; d <= most; d++ {
		trace = append(trace, append([]int32(nil), furthest[at(-d)-1:at(d)+2]...))
		for k := -d; k <= d; k += 2 {
			var i int
			if k == -d || k != d && furthest[at(k-1)] < furthest[at(k+1)] {
				i = int(furthest[at(k+1)])
			} else {
				i = int(furthest[at(k-1)]) + 1
			}
			j := i - k
			for i < n && j < m && j >= 0 && same(i, j) {
				i, j = i+1, j+1
			}
			furthest[at(k)] = int32(i)
			if i >= n && j >= m {
				return backtrack(trace, n, m), true
			}
		}
	}
	return nil, false
}

// backtrack returns the steps of the edit that trace found.
func backtrack(trace [][]int32, n, m int) (steps []editStep) {
	i, j := n, m
	for d := len(trace) - 1; d > 0; d-- {
		before := func(k int) int { return int(trace[d][k+d+1]) }
		k := i - j
		var from int
		if k == -d || k != d && before(k-1) < before(k+1) {
			from = k + 1
		} else {
			from = k - 1
		}
		i = before(from)
		j = i - from
		if from == k+1 {
			steps = append(steps, editStep{i, j, 0})
		} else {
			steps = append(steps, editStep{i, j, 1})
		}
	}
	return steps
}
