package stream_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"daybook/internal/store/jet"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
)

// New events are swept to the end, also if their volume is removed before, and if the
// server is replaced during the sweep. The sweep ends with the tail.
func TestSweepReachesTheEnd(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	s := storetest.Open(t, server, jetstream.Options{Client: jet.Options{TryWait: time.Second}, Exclusive: true})
	mustAppend(t, s, requested(newID()), 0)
	tail := s.NewTail()
	tail.SetSweeping(20*time.Millisecond, 1)
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- tail.Run(ctx, 1) }()
	sweptTo := func(seq uint64) {
		t.Helper()
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		deadline := time.After(20 * time.Second)
		for tail.Swept() < seq {
			select {
			case <-tick.C:
			case <-deadline:
				t.Fatalf("swept up to position %d, want %d", tail.Swept(), seq)
			}
		}
	}
	for range 3 {
		mustAppend(t, s, started(newID(), 1), 0)
	}
	sweptTo(mustLast(t, s))
	mustAppend(t, s, started(newID(), 1), 0)
	sealProven(t, s)
	mustRemove(t, s, removal(1))
	sweptTo(mustLast(t, s))
	last := mustAppend(t, s, started(newID(), 1), 0)
	if err := server.Reopen(t.Context()); err != nil {
		t.Fatal(err)
	}
	sweptTo(last)
	stop()
	if err := <-ran; !errors.Is(err, context.Canceled) {
		t.Errorf("the tail ended with %v", err)
	}
}
