// Package translogtest runs logs over the ledgers of tests.
package translogtest

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/translog"
	"daybook/proof"
)

// every is so long that checkpoints are created only on request.
const every = time.Hour

// Running is a log that follows a ledger.
type Running struct {
	*translog.Log
	// Ended receives the result of Run and is then closed.
	Ended chan error
	stop  context.CancelFunc
}

// Close stops the log and returns the error of Run, nil if it was stopped.
func (r *Running) Close() error {
	r.stop()
	if err := <-r.Ended; !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// Start opens the log in opts.Dir and runs it until the test ends.
func Start(t testing.TB, store *jetstream.Store, opts translog.Options) *Running {
	t.Helper()
	opts.NoSync = true
	if opts.Every == 0 {
		opts.Every = every
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	log, err := translog.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &Running{Log: log, stop: stop, Ended: make(chan error, 1)}
	go func() {
		err := log.Run(ctx, store, store)
		if ctx.Err() != nil {
			err = nil
		}
		r.Ended <- err
		close(r.Ended)
	}()
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// Request returns an event that requests an execution.
func Request(id string) events.Event {
	return events.New(events.DefaultTenant, time.Now(), &events.ExecutionRequested{
		ExecutionID: id, Pool: events.DefaultPool, Content: events.Plain(events.RequestedContent{Source: events.Body{Text: "1 + 1"}}),
	})
}

// Fill appends n requests and returns the position of the last.
func Fill(t testing.TB, store *jetstream.Store, n int) (last uint64) {
	t.Helper()
	for range n {
		var err error
		if last, err = store.Append(t.Context(), Request(events.NewID(time.Now())), 0); err != nil {
			t.Fatal(err)
		}
	}
	return last
}

// Checkpoint returns a checkpoint that covers a position.
func Checkpoint(t testing.TB, log *Running, covers uint64) proof.Checkpoint {
	t.Helper()
	c, err := log.Checkpoint(t.Context(), covers)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
