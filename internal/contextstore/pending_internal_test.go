package contextstore

import (
	"testing"

	"daybook/events"
)

// Equal calls are counted, and their bytes are subtracted when they are recorded.
func TestPendingBytes(t *testing.T) {
	t.Parallel()
	var p pending
	for round := range 3 {
		for range 4 {
			p.call(events.NotedCall{Tool: "search", ArgumentsSHA256: "same", ResultSummary: "42 results"[:round*3]})
		}
		p.resource(events.NotedResource{ResourceID: "db://users"})
		p.try(events.Event{})
		p.call(events.NotedCall{Tool: "search", ArgumentsSHA256: "same"})
		if held := size(p.calls[0]) + size(p.calls[1]) + size(p.resources[0]); p.bytes != held {
			t.Errorf("round %d: %d bytes are counted, %d are held", round, p.bytes, held)
		}
		p.recorded()
		p.try(events.Event{})
		if p.recorded(); p.bytes != 0 || !p.empty() {
			t.Errorf("round %d: %d bytes are counted once all is recorded: %+v", round, p.bytes, p)
		}
	}
}
