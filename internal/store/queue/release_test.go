package queue_test

import (
	"context"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/queue"
	"daybook/internal/store/storetest"
	"daybook/internal/store/stream"
	"daybook/runner"
)

// A request that was returned with a delay of an hour is delivered as soon as any
// process releases it, also after its volume was sealed and the server was restarted.
func TestRelease(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := storetest.StartServer(t, dir)
	opts := jetstream.Options{AckWait: time.Hour}
	s := storetest.Open(t, server, opts)
	type seen struct {
		id    string
		first bool
	}
	deliveries := make(chan seen, 10)
	handle := func(ctx context.Context, d runner.Delivery) {
		var err error
		if d.Delivered == 1 {
			err = d.Nak(ctx, time.Hour)
		} else {
			err = d.Ack(ctx)
		}
		if err != nil {
			t.Error(err)
		}
		deliveries <- seen{d.Event.About(), d.Delivered == 1}
	}
	stop := consume(t, s, 2, handle)
	var ids []string
	var positions []uint64
	for range 4 {
		id := newID()
		ids, positions = append(ids, id), append(positions, mustAppend(t, s, requested(id), 0))
		if got := soon(t, "a first delivery", deliveries); got != (seen{id, true}) {
			t.Fatalf("got %+v", got)
		}
	}
	released := func(s *jetstream.Store, i int) {
		t.Helper()
		if err := s.Release(t.Context(), tenant, events.DefaultPool, positions[i]); err != nil {
			t.Fatal(err)
		}
		if got := soon(t, "the released request", deliveries); got != (seen{ids[i], false}) {
			t.Fatalf("got %+v, want request %d again", got, i)
		}
	}
	released(s, 2)
	released(storetest.Open(t, server, opts), 0)
	if _, err := s.Rotate(t.Context(), stream.RotateOptions{Reason: events.VolumeAsked, Actor: testActor}); err != nil {
		t.Fatal(err)
	}
	released(s, 3)
	stop()
	server.Close()

	s = storetest.Open(t, storetest.StartServer(t, dir), opts)
	consume(t, s, 2, handle)
	released(s, 1)

	// Requests that are acknowledged or not delivered are left alone.
	for _, position := range append(positions, positions[3]+1, positions[3]+1000) {
		if err := s.Release(t.Context(), tenant, events.DefaultPool, position); err != nil {
			t.Errorf("release %d: %v", position, err)
		}
	}
	if err := s.Release(t.Context(), tenant, "nobody", positions[0]); err != nil {
		t.Errorf("release in a pool without runners: %v", err)
	}
	last := newID()
	mustAppend(t, s, requested(last), 0)
	if got := soon(t, "a new request", deliveries); got != (seen{last, true}) {
		t.Errorf("got %+v after releases without effect", got)
	}
}

// A runner can ask whether another one has a run. The question does not cancel it.
func TestIsHeld(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	s, other := storetest.Open(t, server, jetstream.Options{}), storetest.Open(t, server, jetstream.Options{})
	for _, asker := range []*jetstream.Store{s, other} {
		queue.SetCancelTimeout(asker.Queue, patience)
	}
	id := newID()
	held := func(asker *jetstream.Store, want bool) {
		t.Helper()
		if got, err := asker.IsHeld(t.Context(), tenant, id); err != nil || got != want {
			t.Errorf("held: %v, %v; want %v", got, err, want)
		}
	}
	held(other, false)
	stop, err := s.ListenCancel(tenant, id, func() bool { t.Error("the run was cancelled"); return true })
	if err != nil {
		t.Fatal(err)
	}
	held(other, true)
	held(s, true)
	stop()
	held(s, false) // over the connection that ended the listening
}
