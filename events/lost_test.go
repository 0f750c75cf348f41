package events_test

import (
	"testing"

	"daybook/events"
)

// Unreadable reports the lost positions that hold a message, and Missing leaves them out.
func TestUnreadablePositions(t *testing.T) {
	t.Parallel()
	lost := events.Lost{{From: 3, To: 4, NamedAt: 20}, {From: 7, To: 7, NamedAt: 20, Unreadable: true}}
	for position, want := range map[uint64]bool{2: false, 3: false, 6: false, 7: true, 8: false} {
		if got := lost.Unreadable(position); got != want {
			t.Errorf("position %d: %v", position, got)
		}
	}
	if missing := lost.Missing(); len(missing) != 1 || missing[0].From != 3 || len(lost) != 2 {
		t.Errorf("the positions without message are %+v of %+v", missing, lost)
	}
}
