package runner_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"daybook/events"
	"daybook/ledger"
	"daybook/runner"
)

// migrations answers the migrations of heaps.
type migrations struct {
	migrate func(ctx context.Context, r ledger.Request, heap string) (string, error)
}

func (m migrations) Migrate(ctx context.Context, r ledger.Request, heap string) (string, error) {
	return m.migrate(ctx, r, heap)
}

// putHeaps stores a heap of another engine, and one that takes its place.
func (b *testLedger) putHeaps() (old, made string) {
	b.t.Helper()
	old, err := b.store.PutHeap(b.t.Context(), events.DefaultTenant, []byte("old"), "engine-0")
	if err != nil {
		b.t.Fatal(err)
	}
	made, err = b.store.PutHeap(b.t.Context(), events.DefaultTenant, []byte("new"), engine.ID)
	if err != nil {
		b.t.Fatal(err)
	}
	return old, made
}

// A run restores the migration of its heap. A migration that is unfinished costs no try, however
// often that happens.
func TestRunRestoresMigration(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	old, made := b.putHeaps()
	tasks := make(chan runner.Task, 1)
	opts := b.options(echoes(tasks))
	var calls atomic.Int32
	opts.Migrations = migrations{func(_ context.Context, r ledger.Request, heap string) (string, error) {
		if heap != old || r.Heap != old {
			t.Errorf("heap %s of a run with heap %s is migrated", heap, r.Heap)
		}
		if calls.Add(1) <= 12 {
			return "", runner.ErrMigrationUnfinished
		}
		return made, nil
	}}
	b.startRunner(opts)
	id := b.submit(func(s *ledger.Submission) { s.Heap = old })
	status, end := b.waitForEnd(id)
	if got := receive(t, "the run", tasks); string(got.Heap) != "new" {
		t.Errorf("the script got heap %q", got.Heap)
	}
	s := newestStart(t, b.history(id))
	if status != events.StatusCompleted || s.Attempt != 1 || s.InputHeap != made || s.MigratedFrom != old || end.Heap.Parent != made || end.Heap.EngineID != engine.ID || calls.Load() != 13 {
		t.Errorf("the run is %s after %d calls: %+v, %+v", status, calls.Load(), s, end.Heap)
	}
}

// A run whose heap cannot be migrated fails with the reason. A turn names what to do.
func TestRunWithoutMigration(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		err    error
		reason string
		says   string
	}{
		{"different", &runner.NotMigratedError{Why: "a replay differs"}, runner.ReasonHeapEngineMismatch, "or without the heap. It cannot be migrated: a replay differs."},
		{"unavailable", errors.New("no worker"), runner.ReasonHeapUnavailable, "10 tries"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newTestLedger(t)
			old, _ := b.putHeaps()
			opts := b.options(completes())
			opts.Migrations = migrations{func(context.Context, ledger.Request, string) (string, error) { return "", test.err }}
			b.startRunner(opts)
			id := b.submit(func(s *ledger.Submission) { s.Heap = old })
			status, end := b.waitForEnd(id)
			if s := newestStart(t, b.history(id)); status != events.StatusFailed || end.Reason != test.reason || !strings.Contains(errorText(end), test.says) || s.InputHeap != "" || s.MigratedFrom != "" {
				t.Errorf("the run is %s, %s: %s; %+v", status, end.Reason, errorText(end), s)
			}
		})
	}
}

// A cancel ends a run whose heap is being migrated.
func TestCancelDuringMigration(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	old, _ := b.putHeaps()
	opts := b.options(completes())
	migrating := make(chan struct{}, 1)
	opts.Migrations = migrations{func(ctx context.Context, _ ledger.Request, _ string) (string, error) {
		migrating <- struct{}{}
		<-ctx.Done()
		return "", context.Cause(ctx)
	}}
	b.startRunner(opts)
	id := b.submit(func(s *ledger.Submission) { s.Heap = old })
	receive(t, "the migration", migrating)
	if _, err := b.cancel(id); err != nil {
		t.Fatal(err)
	}
	if status, _ := b.waitForEnd(id); status != events.StatusCancelled {
		t.Errorf("the run is %s", status)
	}
}
