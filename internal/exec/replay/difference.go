package replay

import (
	"strings"
	"time"
	"unicode/utf8"

	"daybook/events"
)

// Report is the result of a replay.
type Report struct {
	Verdict events.ReplayVerdict
	// Stopped is true if the recorded run was stopped. The replay was then compared up to
	// that point.
	Stopped bool
	// Compared lists what was compared, in order.
	Compared []events.ReplayPart
	// Difference is the first difference; nil unless Verdict is events.ReplayDifferent.
	Difference *Difference
	// Nondeterministic says why the run may differ: what the recorded run or the replay
	// learned from the garbage collector. It is set only with Difference.
	Nondeterministic []events.Nondeterminism
	// OtherBuild is true if another build of Daybook may have made the record, with the same
	// engine: it may have converted TypeScript or files in another way. It is set only with
	// Difference.
	OtherBuild bool
	// Reason and Message say why the run was not replayed: a machine-readable
	// cause, and its text. They are empty unless Verdict is events.NotReplayed.
	Reason, Message string
	// Engine is the engine of the replay. RecordedEngine is that of the run.
	Engine, RecordedEngine events.Engine
	// Heap is the hash of the heap that the replay left; empty for none.
	Heap string
	// MigratedHeap is the heap that was restored in place of the recorded input heap, which
	// another engine made; empty if the recorded one was.
	MigratedHeap string
	// Timeline is what the replay did; nil unless ReplaySteps made the report.
	Timeline *Timeline
	// WallTime is the duration of the replay.
	WallTime time.Duration
}

// Difference is a difference between a recorded run and its replay.
type Difference struct {
	// Part is what differs.
	Part events.ReplayPart
	// Line is the number of a line of output in the execution, from 1; Call the number of
	// a host call, Artifact that of an artifact. 0 for none.
	Line     int64
	Call     int
	Artifact int
	// Recorded and Replayed are the two values, or their parts around the first
	// difference.
	Recorded, Replayed string
}

// Lengths of excerpts in bytes: of the equal text before a difference, and of the text
// after its beginning.
const (
	excerptBefore = 80
	excerptAfter  = 240
)

// excerpts returns the parts of two texts around their first difference. They are equal in
// what precedes it.
func excerpts(recorded, replayed string) (string, string) {
	n := 0
	for n < len(recorded) && n < len(replayed) && recorded[n] == replayed[n] {
		n++
	}
	from := max(n-excerptBefore, 0)
	return excerpt(recorded, from, n), excerpt(replayed, from, n)
}

// excerpt returns the part of s from a byte before the difference to some bytes after it.
func excerpt(s string, from, difference int) string {
	for from > 0 && from < len(s) && !utf8.RuneStart(s[from]) {
		from--
	}
	to := min(difference+excerptAfter, len(s))
	for to < len(s) && !utf8.RuneStart(s[to]) {
		to--
	}
	out := strings.ToValidUTF8(s[from:to], "\uFFFD")
	if from > 0 {
		out = "…" + out
	}
	if to < len(s) {
		out += "…"
	}
	return out
}
