package embed_test

import (
	"slices"
	"testing"

	"daybook/embed"
	"daybook/events"
)

// The record says which runs learned from the garbage collector, and a replay that repeats them
// is identical.
func TestNondeterministicRuns(t *testing.T) {
	t.Parallel()
	book := start(t, embed.Options{})
	first := run(t, book, embed.Script{Code: "var w = new WeakRef({}), o = {}, r = new FinalizationRegistry(() => {}); r.register(o, 1); 1"})
	second := run(t, book, embed.Script{Code: "o = null; w.deref() === undefined", Heap: deref(first.Heap)})
	if first.Nondeterministic != nil || deref(second.Result) != "true" || !slices.Equal(second.Nondeterministic, events.AllNondeterminism()) {
		t.Errorf("marks %q and %q, result %s", first.Nondeterministic, second.Nondeterministic, deref(second.Result))
	}
	history := history(t, book, second.ExecutionID)
	if end := events.EndingOf(history[len(history)-1].Data); end == nil || !slices.Equal(end.Nondeterministic, events.AllNondeterminism()) {
		t.Errorf("the end of the run is %+v", end)
	}
	if r := replayIn(t, book, second.ExecutionID); r.Verdict != events.ReplayIdentical || r.Nondeterministic != nil {
		t.Errorf("the replay is %s: %+v, %q", r.Verdict, r.Difference, r.Nondeterministic)
	}
}
