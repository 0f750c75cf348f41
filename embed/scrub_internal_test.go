package embed

import (
	"strings"
	"testing"

	"daybook/events"
	"daybook/httpapi"
	"daybook/internal/exec/replay"
	"daybook/projections"
)

// A finding about a run that learned from the garbage collector names it.
func TestTextOfADifference(t *testing.T) {
	t.Parallel()
	r := httpapi.Replayed{Difference: &httpapi.ReplayDifference{Part: events.ReplayOutput}}
	const plain = "the replay by this engine differs from the record: output"
	if got := describeDifference(r); got != plain {
		t.Error(got)
	}
	r.Nondeterministic = events.AllNondeterminism()
	if got := describeDifference(r); !strings.HasPrefix(got, plain+", which may be due to the garbage collector") {
		t.Error(got)
	}
}

// A run of the sample is replayed once by each engine, and again when the server uses the compiler
// that an earlier replay lacked.
func TestVerdictsOfTheSample(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		last   projections.LastReplay
		engine events.Engine
		want   bool
	}{
		{projections.LastReplay{EngineID: "a", Verdict: events.ReplayIdentical}, events.Engine{ID: "a", JIT: true}, true},
		{projections.LastReplay{EngineID: "a", Reason: replay.ReasonHeapMissing}, events.Engine{ID: "a", JIT: true}, true},
		{projections.LastReplay{EngineID: "a", Reason: replay.ReasonJIT}, events.Engine{ID: "a"}, true},
		{projections.LastReplay{EngineID: "a", Reason: replay.ReasonJIT}, events.Engine{ID: "a", JIT: true}, false},
		{projections.LastReplay{EngineID: "a", Verdict: events.ReplayIdentical}, events.Engine{ID: "b"}, false},
	} {
		if got := isVerdictOf(&test.last, test.engine); got != test.want {
			t.Errorf("%+v by %+v: %t", test.last, test.engine, got)
		}
	}
}
