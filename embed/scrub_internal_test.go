package embed

import (
	"strings"
	"testing"

	"daybook/events"
	"daybook/httpapi"
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
