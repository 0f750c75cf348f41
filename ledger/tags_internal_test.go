package ledger

import (
	"testing"

	"daybook/events"
)

// An edit cannot hold from a position after its own. Otherwise a manipulated ledger
// could put one edit above all later ones permanently.
func TestAnEditDoesNotHoldFromTheFuture(t *testing.T) {
	t.Parallel()
	edit := func(seq, from uint64) events.Event {
		return events.Event{Seq: seq, Data: &events.HeapTagged{AppliesAt: from}}
	}
	for _, test := range []struct {
		name  string
		edits []events.Event
		want  uint64 // position of the edit in force
	}{
		{"none", nil, 0},
		{"later ones replace", []events.Event{edit(5, 0), edit(9, 0)}, 9},
		{"a run's tags hold from its end", []events.Event{edit(5, 0), edit(9, 3)}, 5},
		{"from the future", []events.Event{edit(5, 1000), edit(9, 0)}, 9},
		{"from its own position", []events.Event{edit(5, 5), edit(9, 9)}, 9},
	} {
		if got, _ := newestEdit(test.edits); got.Seq != test.want {
			t.Errorf("%s: the edit at %d counts, want %d", test.name, got.Seq, test.want)
		}
	}
}

// Unknown edits of a heap are not skipped: the cached position does not pass edits that
// were not read.
func TestKnownEditsHaveNoGap(t *testing.T) {
	t.Parallel()
	edit := func(seq, from uint64) events.Event {
		return events.Event{Seq: seq, Data: &events.HeapTagged{AppliesAt: from}}
	}
	var known editCache
	for _, step := range []struct {
		name          string
		after, upTo   uint64
		edits         []events.Event
		known, before uint64
	}{
		{"a part whose beginning is unknown", 7, 9, []events.Event{edit(9, 0)}, 0, 0},
		{"all, and no edit of the heap", 0, 5, nil, 5, 5},
		{"a gap", 6, 9, []events.Event{edit(9, 0)}, 5, 5},
		{"what follows", 5, 9, []events.Event{edit(8, 0)}, 9, 7},
		{"tags of a run that ended before", 9, 12, []events.Event{edit(12, 6)}, 12, 7},
		{"a newer edit", 7, 14, []events.Event{edit(8, 0), edit(12, 6), edit(13, 0)}, 14, 12},
		{"an older answer", 5, 9, []events.Event{edit(8, 0)}, 14, 12},
	} {
		known.advance("t", "h", step.after, step.upTo, step.edits)
		if upTo, before := known.upTo("t", "h"), known.beforeNewest("t", "h"); upTo != step.known || before != step.before {
			t.Errorf("%s: known up to %d, the edit that counts is after %d, want %d and %d", step.name, upTo, before, step.known, step.before)
		}
	}
}
