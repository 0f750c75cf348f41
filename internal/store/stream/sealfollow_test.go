package stream_test

import (
	"context"
	"testing"

	"daybook/events"
	"daybook/internal/store/storetest"
	"daybook/internal/store/stream"
)

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
