package replay_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/exec/replay"
)

func ended(n int) *events.Event {
	return &events.Event{Tenant: "acme", Data: &events.ExecutionCompleted{Ending: events.Ending{ExecutionID: fmt.Sprintf("run-%d", n)}}}
}

// A sample is one execution in so many, replayed while the server is idle and once per engine.
func TestSampler(t *testing.T) {
	t.Parallel()
	var idle atomic.Bool
	replayed := make(chan string, 1000)
	s := replay.NewSampler(replay.SamplerOptions{
		Every: 10, Poll: time.Millisecond, IsIdle: idle.Load, Logger: slog.New(slog.DiscardHandler),
		IsReplayed: func(_ context.Context, _, execution string) (bool, error) { return execution == "run-20", nil },
		Replay: func(_ context.Context, tenant, execution string) error {
			replayed <- tenant + " " + execution
			return errors.New("the run was removed") // the next one follows
		},
	})
	s.Offer(&events.Event{Tenant: "acme", Data: &events.ExecutionStarted{ExecutionID: "run-1"}})
	for n := range 1000 {
		s.Offer(ended(n))
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	select {
	case r := <-replayed:
		t.Errorf("%s is replayed while the server is busy", r)
	case <-time.After(20 * time.Millisecond): // several polls; a replay may come later at most
	}
	idle.Store(true)
	var got []string
	for len(got) < 60 {
		got = append(got, <-replayed)
	}
	stop()
	<-done
	if slices.Contains(got, "acme run-20") {
		t.Error("an execution is replayed twice")
	}
	again := replay.NewSampler(replay.SamplerOptions{
		Every: 10, IsIdle: func() bool { return true }, Logger: slog.New(slog.DiscardHandler),
		IsReplayed: func(context.Context, string, string) (bool, error) { return false, nil },
		Replay: func(_ context.Context, tenant, execution string) error {
			replayed <- tenant + " " + execution
			return nil
		},
	})
	for n := range 10_000 {
		again.Offer(ended(n)) // more than can wait
	}
}
