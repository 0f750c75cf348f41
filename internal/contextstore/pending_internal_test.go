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
			p.addCall(events.NotedCall{Tool: "search", ArgumentsSHA256: "same", ResultSummary: "42 results"[:round*3]})
		}
		p.addResource(events.NotedResource{ResourceID: "db://users"})
		p.setInFlight(events.Event{}, func() {})
		p.addCall(events.NotedCall{Tool: "search", ArgumentsSHA256: "same"})
		if held := size(p.calls[0]) + size(p.calls[1]) + size(p.resources[0]); p.bytes != held {
			t.Errorf("round %d: %d bytes are counted, %d are held", round, p.bytes, held)
		}
		p.dropRecorded()
		p.setInFlight(events.Event{}, func() {})
		if p.dropRecorded(); p.bytes != 0 || !p.isEmpty() {
			t.Errorf("round %d: %d bytes are counted after all notes are recorded: %+v", round, p.bytes, p)
		}
	}
}
