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
