package runner_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"daybook/runner"
)

// BenchmarkHostCall is what a call costs on top of its server and of the way out
// of the worker: it is on record, durably, before it leaves, and its answer before
// the script gets it.
func BenchmarkHostCall(b *testing.B) {
	l, acked := startDurable(b, workers{func(ctx context.Context, t runner.Task, _ sink) (runner.Outcome, error) {
		for n := range b.N {
			if err := t.Host.Call(ctx, n+1, "shop", "price", fmt.Appendf(nil, `{"n":%d}`, n)); err != nil {
				return runner.Outcome{}, err
			}
			if a, err := t.Host.Next(ctx, time.Time{}); err != nil || !a.OK {
				return runner.Outcome{}, fmt.Errorf("call %d: %w", n+1, err)
			}
		}
		return completed("1"), nil
	}}, 1, &servers{call: answers})
	b.ResetTimer()
	submitTo(b, l)
	<-acked
}
