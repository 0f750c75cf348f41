package runner_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"daybook/events"
	"daybook/internal/store/jet"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/natsserver"
	"daybook/ledger"
	"daybook/runner"
)

// startDurable starts a runner over a ledger that syncs every event, as in production.
// The channel receives a value for each finished run.
func startDurable(b *testing.B, w runner.Workers, slots int, callable ...runner.Servers) (*ledger.Ledger, <-chan struct{}) {
	b.Helper()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	server, err := natsserver.Start(b.Context(), natsserver.Options{StoreDir: b.TempDir(), Logger: quiet})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(server.Close)
	publish, err := server.Conn("publish")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(publish.Close)
	consume, err := server.Conn("consume")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(consume.Close)
	store, err := jetstream.Open(b.Context(), publish, consume, jetstream.Options{Client: jet.Options{Logger: quiet}})
	if err != nil {
		b.Fatal(err)
	}
	l := ledger.New(store, ledger.Options{OutputMaxBytes: -1, Logger: quiet})
	acked := make(chan struct{}, b.N)
	queue := work{Store: store, ack: func(ctx context.Context, d runner.Delivery) error {
		defer func() { acked <- struct{}{} }()
		return d.Ack(ctx)
	}}
	opts := runner.Options{Slots: slots, Ledger: l, Work: queue, Heaps: store, Texts: store, Workers: w, Logger: quiet}
	if len(callable) > 0 {
		opts.Servers = callable[0]
	}
	r := runner.New(opts)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	b.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	return l, acked
}

func submitTo(b *testing.B, l *ledger.Ledger) {
	b.Helper()
	if _, err := l.Submit(b.Context(), ledger.Submission{Tenant: events.DefaultTenant, Code: "1"}); err != nil {
		b.Error(err)
	}
}

// BenchmarkOutput measures the durable output of one script, in lines of 90 bytes that
// are written in batches like a worker's frames.
func BenchmarkOutput(b *testing.B) {
	for _, batch := range []int{1, 16, 512} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			l, acked := startDurable(b, workers{func(ctx context.Context, _ runner.Task, write sink) (runner.Outcome, error) {
				line := strings.Repeat("x", 90)
				for left := b.N; left > 0; left -= batch {
					lines := make([]events.Line, min(batch, left))
					for i := range lines {
						lines[i].Text = line
					}
					if err := write(ctx, lines); err != nil {
						return runner.Outcome{}, err
					}
				}
				return completed("1"), nil
			}}, 1)
			b.ResetTimer()
			submitTo(b, l)
			<-acked
		})
	}
}

// BenchmarkRuns measures what the ledger adds to a script that takes no time: four
// durable events, the queue, and the bookkeeping.
func BenchmarkRuns(b *testing.B) {
	for _, slots := range []int{1, 2, 8} {
		b.Run(fmt.Sprintf("slots=%d", slots), func(b *testing.B) {
			l, acked := startDurable(b, completes("hello"), slots)
			b.ResetTimer()
			go func() {
				for range b.N {
					submitTo(b, l)
				}
			}()
			for range b.N {
				<-acked
			}
		})
	}
}
