package fill_test

import (
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/store/fill"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
)

func TestEvents(t *testing.T) {
	server := storetest.StartServer(t, t.TempDir())
	store := storetest.Open(t, server, jetstream.Options{})
	conn, err := server.Conn("fill")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	volumes, err := store.Volumes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	active := volumes[len(volumes)-1]

	const n = 5001 // two whole batches and a part of one
	newEvent := func() events.Event {
		return events.New(events.DefaultTenant, time.Now(), &events.ExecutionStarted{ExecutionID: events.NewID(time.Now()), Attempt: 1})
	}
	var first, last events.Event
	end, err := fill.Events(t.Context(), conn, active.Number, active.Last, func(yield func(events.Event) bool) {
		for i := range n {
			last = newEvent()
			if i == 0 {
				first = last
			}
			if !yield(last) {
				return
			}
		}
	})
	if err != nil || end != active.Last+n {
		t.Fatalf("the last position is %d with error %v, want %d", end, err, active.Last+n)
	}
	for position, want := range map[uint64]events.Event{active.Last + 1: first, end: last} {
		got, err := store.Read(t.Context(), position-1, 1)
		if err != nil || len(got) != 1 || got[0].ID != want.ID || got[0].Seq != position {
			t.Errorf("position %d has %v with error %v, want event %s", position, got, err, want.ID)
		}
	}
	if next, err := store.Append(t.Context(), newEvent(), -1); err != nil || next != end+1 {
		t.Errorf("the next event is at %d with error %v, want %d", next, err, end+1)
	}
}

func TestEventsRefusesAnotherPosition(t *testing.T) {
	server := storetest.StartServer(t, t.TempDir())
	storetest.Open(t, server, jetstream.Options{})
	conn, err := server.Conn("fill")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = fill.Events(t.Context(), conn, 1, 100, func(yield func(events.Event) bool) {
		yield(events.New(events.DefaultTenant, time.Now(), &events.ExecutionStarted{ExecutionID: events.NewID(time.Now()), Attempt: 1}))
	})
	if err == nil {
		t.Error("events were appended after a position that is not the last")
	}
}
