package translog

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"daybook/internal/eventproof"
)

// While events are recorded, the signer signs at most one checkpoint a second. Then one more covers the event
// of the last one, so that a checkpoint covers every event of an idle ledger, which gets no others.
func TestPaceOfCheckpoints(t *testing.T) {
	t.Parallel()
	for _, between := range []time.Duration{10 * time.Millisecond, 300 * time.Millisecond, 700 * time.Millisecond, 1500 * time.Millisecond, 2500 * time.Millisecond} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			ledger := newMemoryLedger()
			var stored atomic.Int64
			l, err := Open(Options{Dir: dir, NoSync: true, Logger: slog.New(slog.DiscardHandler), OnCheckpointStored: func() { stored.Add(1) }})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- l.Run(ctx, ledger, ledger) }()
			const long = 20 * time.Second
			start := time.Now()
			for time.Since(start) < long {
				ledger.fill(t, 1)
				time.Sleep(between)
			}
			synctest.Wait()
			underLoad := int(stored.Load())
			if most := int(time.Since(start)/time.Second) + 1; underLoad > most || underLoad < 5 {
				t.Errorf("%d checkpoints were signed while events were recorded each %v for %v, want at most %d", underLoad, between, long, most)
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			end, recorded := ledger.last, 0
			for _, m := range ledger.list {
				if eventproof.IsCheckpoint(m) {
					recorded++
				}
			}
			if c, _ := l.Latest(); c.Size != end || recorded > underLoad+1 || int(stored.Load()) > underLoad+2 {
				t.Errorf("the newest checkpoint covers %d of %d events, %d are recorded and %d stored", c.Size, end, recorded, stored.Load())
			}
			atRest := stored.Load()
			time.Sleep(24 * time.Hour)
			synctest.Wait()
			if ledger.last != end || stored.Load() != atRest {
				t.Errorf("the idle ledger grew from %d to %d events, and got %d checkpoints", end, ledger.last, stored.Load()-atRest)
			}
			stop()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
}
