package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/exec/worker"
	"daybook/runner"
)

// A task that asks for it gets each timer that fires, in order with the output. Beyond the limit
// the run continues without reports.
func TestTimersAreReported(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	for _, stateful := range []bool{true, false} {
		var seen []string
		task := patient("console.log('a'); setTimeout(function late() { console.log('c') }, 5); setImmediate(() => console.log('b')); const h = setInterval(() => { clearInterval(h) }, 7)")
		task.Stateful, task.SkipWaits = stateful, true
		start := task.Start
		task.OnTimer = func(f runner.TimerFired) error {
			seen = append(seen, fmt.Sprintf("%s %s after %s at %s", f.Kind, f.Name, f.Delay, f.At.Sub(start)))
			return nil
		}
		o, err := pool.Run(t.Context(), task, func(_ context.Context, lines []events.Line) error {
			for _, l := range lines {
				seen = append(seen, l.Text)
			}
			return nil
		})
		want := []string{"a", "setImmediate  after 0s at 0s", "b", "setTimeout late after 5ms at 5ms", "c", "setInterval  after 7ms at 7ms"}
		if err != nil || !slices.Equal(seen, want) || o.TimersFired != 3 || !o.Clock.Equal(start.Add(7*time.Millisecond)) {
			t.Errorf("stateful %t: %q, %+v, %v", stateful, seen, o, err)
		}
	}

	many := patient("let n = 0; const h = setInterval(() => { if (++n === 12000) clearInterval(h) }, 1); await new Promise(done => setTimeout(done, 12001)); n")
	many.SkipWaits = true
	reports := 0
	many.OnTimer = func(runner.TimerFired) error { reports++; return nil }
	if o, err := pool.Run(t.Context(), many, discard); err != nil || o.Result == nil || *o.Result != "12000" || reports != 10000 || o.TimersFired != 12001 {
		t.Errorf("%d reports, %+v, %v", reports, o, err)
	}

	refused := errors.New("enough")
	task := patient("setInterval(() => {}, 1)")
	task.OnTimer = func(runner.TimerFired) error { return refused }
	if _, err := pool.Run(t.Context(), task, discard); !errors.Is(err, refused) {
		t.Errorf("after a refusal: %v", err)
	}
	unasked := patient("setTimeout(() => {}, 1)")
	if o, err := pool.Run(t.Context(), unasked, discard); err != nil || o.TimersFired != 0 || !o.Clock.IsZero() {
		t.Errorf("without reports: %+v, %v", o, err)
	}
}

// A worker that sends invalid reports of timers is killed.
func TestHostileReportsOfTimers(t *testing.T) {
	t.Parallel()
	for _, how := range []string{
		"timer at an invalid time", "timer of an unknown kind", "timer with a negative delay", "timer with a long name", "timer with unknown members",
		"too many timers", "counts fewer timers than reported",
	} {
		pool := hostilePool(t, how)
		task := hostileTask("1+1")
		task.Timeout = 20 * time.Second
		task.OnTimer = func(runner.TimerFired) error { return nil }
		o, err := pool.Run(t.Context(), task, discard)
		if err != nil || o.Reason != runner.ReasonProtocol || !strings.HasPrefix(o.Error, "Worker broke protocol: ") || o.Heap != nil {
			t.Errorf("%s: %+v, %v", how, o, err)
		}
	}
}
