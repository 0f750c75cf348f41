package audit_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"daybook/audit"
	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/jetstream/jetstreamtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testEvery is so long that checkpoints come only when a test asks for one.
const testEvery = time.Hour

// running is a log that follows a ledger.
type running struct {
	*audit.Log
	ended chan error
	stop  context.CancelFunc
}

// close stops it and returns what Run returned, nil for a proper end.
func (r *running) close() error {
	r.stop()
	if err := <-r.ended; err != context.Canceled {
		return err
	}
	return nil
}

// start opens the log in dir and makes it follow a ledger until the test ends.
func start(t testing.TB, store *jetstream.Store, opts audit.Options) *running {
	t.Helper()
	opts.NoSync = true
	if opts.Every == 0 {
		opts.Every = testEvery
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	log, err := audit.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &running{Log: log, stop: stop, ended: make(chan error, 1)}
	go func() {
		err := log.Run(ctx, store, store)
		if ctx.Err() != nil {
			err = nil
		}
		r.ended <- err
		close(r.ended)
	}()
	t.Cleanup(func() { stop(); <-r.ended })
	return r
}

func request(id string) events.Event {
	return events.New(events.DefaultTenant, time.Now(), &events.ExecutionRequested{
		ExecutionID: id, Pool: events.DefaultPool, Content: events.Plain(events.RequestedContent{Source: events.Body{Text: "1 + 1"}}),
	})
}

// fill appends n events and returns the position of the last.
func fill(t testing.TB, store *jetstream.Store, n int) (last uint64) {
	t.Helper()
	for range n {
		var err error
		if last, err = store.Append(t.Context(), request(events.NewID(time.Now())), 0); err != nil {
			t.Fatal(err)
		}
	}
	return last
}

func mustCheckpoint(t testing.TB, log *running, covers uint64) audit.Checkpoint {
	t.Helper()
	c, err := log.Checkpoint(t.Context(), covers)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newStore(t testing.TB) *jetstream.Store { return jetstreamtest.Start(t) }
