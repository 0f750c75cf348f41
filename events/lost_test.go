package events_test

import (
	"testing"

	"daybook/events"
)

func TestLost(t *testing.T) {
	t.Parallel()
	lost := events.Lost{{From: 3, To: 5}, {From: 6, To: 6}, {From: 9, To: 12}}
	for position, want := range map[uint64]uint64{1: 1, 3: 7, 5: 7, 6: 7, 7: 7, 8: 8, 9: 13, 12: 13, 13: 13} {
		if got := lost.Skip(position); got != want {
			t.Errorf("behind %d comes %d, want %d", position, got, want)
		}
		if _, in := lost.At(position); in != (want != position) {
			t.Errorf("%d is lost: %t", position, in)
		}
	}
	if !lost.Covers(3, 6) || !lost.Covers(4, 3) || lost.Covers(2, 6) || lost.Covers(5, 9) {
		t.Error("covers what it does not, or not what it does")
	}
	if n := lost.Between(5, 10); n != 4 {
		t.Errorf("%d positions are lost from 5 to 10, want 4", n)
	}
	if r, ok := lost.After(6); !ok || r.From != 9 {
		t.Errorf("after 6 comes %+v", r)
	}
	if _, ok := lost.After(12); ok {
		t.Error("something is lost after the last")
	}
}

// Readers pass over positions with a message that is no event, and counts of messages
// include them.
func TestUnreadablePositions(t *testing.T) {
	t.Parallel()
	lost := events.Lost{{From: 3, To: 4, NamedAt: 20}, {From: 7, To: 7, NamedAt: 20, Unreadable: true}}
	for position, want := range map[uint64]bool{2: false, 3: false, 6: false, 7: true, 8: false} {
		if got := lost.Unreadable(position); got != want {
			t.Errorf("position %d: %v", position, got)
		}
	}
	if n := lost.Missing().Between(1, 10); n != 2 || len(lost) != 2 || lost.Between(1, 10) != 3 {
		t.Errorf("%d positions have no message; %+v", n, lost)
	}
}
