package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/exec/worker"
	"daybook/runner"
)

// busy is a script that runs until it is stopped.
const busy = "console.log('here'); for (;;);"

// The CPU time of a run is counted in all ways that it can end. CPU time that the worker used before
// is not counted.
func TestCPUTimeOfEveryEnd(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	stopped := errors.New("stopped")
	const spent = 5 * time.Millisecond
	for _, test := range []struct {
		name, code string
		change     func(*runner.Task)
		stop       func(pool *worker.Pool, cancel context.CancelCauseFunc)
		reason     string
		failure    error // of Run
	}{
		{name: "completed", code: "let n = 0; for (let i = 0; i < 1e6; i++) n += i % 7; n"},
		{name: "threw", code: "let n = 0; for (let i = 0; i < 1e6; i++) n += i % 7; throw n", reason: runner.ReasonException},
		{name: "timed out", code: "for (;;);", reason: runner.ReasonTimeout, change: func(t *runner.Task) { t.Timeout = 100 * spent }},
		{name: "timed out and killed", code: busy, reason: runner.ReasonTimeout, change: func(t *runner.Task) { t.Timeout = 60 * spent }, stop: func(pool *worker.Pool, _ context.CancelCauseFunc) { signalWorkers(pool, syscall.SIGSTOP) }},
		{name: "cancelled", code: busy, failure: stopped, stop: func(_ *worker.Pool, cancel context.CancelCauseFunc) { cancel(stopped) }},
		{name: "cancelled and killed", code: busy, failure: stopped, stop: func(pool *worker.Pool, cancel context.CancelCauseFunc) {
			signalWorkers(pool, syscall.SIGSTOP)
			cancel(stopped)
		}},
		{name: "killed", code: busy, reason: runner.ReasonWorkerDied, stop: func(pool *worker.Pool, _ context.CancelCauseFunc) { signalWorkers(pool, syscall.SIGKILL) }},
		{name: "crashed", code: busy, reason: runner.ReasonWorkerDied, stop: func(pool *worker.Pool, _ context.CancelCauseFunc) { signalWorkers(pool, syscall.SIGSEGV) }},
		{name: "out of memory", code: "const all = []; for (;;) all.push(new Array(1000).fill(1.5))", reason: runner.ReasonOutOfMemory},
	} {
		for _, stateful := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, stateful %t", test.name, stateful), func(t *testing.T) {
				task := patient(test.code)
				task.Stateful = stateful
				if test.change != nil {
					test.change(&task)
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				began := time.Now()
				o, err := pool.Run(ctx, task, func(context.Context, []events.Line) error {
					if test.stop != nil {
						started := pool.RunningCPUTime()
						for now := started; now != 0 && now < started+spent; now = pool.RunningCPUTime() {
							time.Sleep(time.Millisecond) // the worker uses the CPU time, unless the run ends before
						}
						test.stop(pool, cancel)
					}
					return nil
				})
				if !errors.Is(err, test.failure) || o.Reason != test.reason {
					t.Fatalf("%+v, %v, want %s, %v", o, err, test.reason, test.failure)
				}
				t.Logf("%s of CPU time in %s: %s", o.CPUTime, o.WallTime, strings.SplitN(o.Error, "\n", 2)[0])
				least := spent
				if test.stop == nil || test.reason == runner.ReasonTimeout {
					least = time.Millisecond
				}
				if o.CPUTime < least || o.CPUTime > 2*time.Since(began) {
					t.Errorf("%s of CPU time in %s", o.CPUTime, time.Since(began))
				}
			})
		}
	}
}

func signalWorkers(pool *worker.Pool, sig syscall.Signal) {
	for _, pid := range pool.RunningWorkers() {
		_ = syscall.Kill(pid, sig)
	}
}

// The CPU time of earlier runs of a worker is not counted when a later run is killed.
func TestCPUTimeOfALaterRun(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	first, err := pool.Run(t.Context(), patient("let n = 0; for (let i = 0; i < 1e7; i++) n += i % 7; n"), discard)
	if err != nil || first.Status != events.StatusCompleted {
		t.Fatalf("%+v, %v", first, err)
	}
	before := pool.IdleWorkers()
	var pids []int
	o, err := pool.Run(t.Context(), patient("console.log(1); await new Promise(r => setTimeout(r, 1e6))"), func(context.Context, []events.Line) error {
		pids = pool.RunningWorkers()
		signalWorkers(pool, syscall.SIGKILL)
		return nil
	})
	if err != nil || o.Reason != runner.ReasonWorkerDied || len(pids) != 1 || before[pids[0]] == "" {
		t.Fatalf("%+v, %v, in %v, not one of %v", o, err, pids, before)
	}
	if o.CPUTime <= 0 || o.CPUTime > first.CPUTime/2 {
		t.Errorf("%s of CPU time, the first run used %s", o.CPUTime, first.CPUTime)
	}
}

// The CPU time that a worker reports is limited to what its process used.
func TestReportedCPUTimeIsBounded(t *testing.T) {
	t.Parallel()
	// The worker may have written its answer before the run was sent, and use no CPU time after that.
	o, err := hostilePool(t, "claims hours of CPU time").Run(t.Context(), patient("1"), discard)
	if err != nil || o.Status != events.StatusCompleted || o.CPUTime < 0 || o.CPUTime > 10*time.Second {
		t.Errorf("%+v, %v", o, err)
	}
}
