package stream_test

import (
	"context"
	"errors"
	"testing"

	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/internal/store/stream"
)

// A follower that cannot look for the next volume looks again, so that it does not take the
// events of that volume for lost.
func TestFollowerLooksAgainForTheNextVolume(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	s := storetest.Open(t, server, jetstream.Options{})
	other := storetest.Open(t, server, jetstream.Options{})
	mustAppend(t, s, requested(newID()), 0)
	seen, done := make(chan events.Event, 100), make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		done <- s.Follow(ctx, 0, func(batch []events.Event, _ uint64) error {
			for _, e := range batch {
				seen <- e
			}
			return nil
		})
	}()
	if e := soon(t, "event", seen); e.Seq != 1 {
		t.Errorf("position %d", e.Seq)
	}
	unlock := stream.LockVolumes(s.Ledger)
	seal(t, other)
	last := mustAppend(t, other, requested(newID()), 0)
	if e := soon(t, "the seal event", seen); e.Seq != 2 {
		t.Errorf("position %d", e.Seq)
	}
	// The follower is behind the announced events once it asks for them again and again.
	// Then it has looked for the next volume.
	stream.AwaitRequests(t, s.Ledger, 20)
	unlock()
	for want := uint64(3); want <= last; want++ {
		if e := soon(t, "event of the next volume", seen); e.Seq != want {
			t.Errorf("position %d, want %d", e.Seq, want)
		}
	}
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A follower that looks for the next volume does not wait for a rotation, whose
// signature may wait for the follower.
func TestFollowerDoesNotWaitForASealing(t *testing.T) {
	t.Parallel()
	s := storetest.Start(t)
	mustAppend(t, s, requested(newID()), 0)
	looked := make(chan struct{})
	_, err := s.Rotate(t.Context(), stream.RotateOptions{Reason: events.VolumeAsked, Actor: testActor, Close: func(ctx context.Context, _ uint64) (*events.ClosingCheckpoint, error) {
		go func() {
			defer close(looked)
			stream.LookForVolumes(ctx, s.Ledger)
		}()
		soon(t, "the end of the look", looked)
		return nil, nil //nolint:nilnil // without proofs there is no closing checkpoint
	}})
	if err != nil {
		t.Fatal(err)
	}
}
