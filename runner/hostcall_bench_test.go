package runner_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"daybook/runner"
)

// BenchmarkHostCall measures what a host call costs in addition to the tool server and
// the worker: the call is durably recorded before it is sent, and the answer before the
// script receives it.
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
