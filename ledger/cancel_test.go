package ledger_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/store/storetest"
	"daybook/ledger"
)

func TestCancelOfARunWithoutARunner(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	for name, started := range map[string]bool{"queued": false, "its runner died": true} {
		t.Run(name, func(t *testing.T) {
			req := b.submit(ledger.Submission{Session: "s " + name})
			attempt := 0
			if started {
				b.start(req, false)
				attempt = 1
			}
			seq, err := b.Cancel(t.Context(), tenant, req.ExecutionID, alice)
			if err != nil {
				t.Fatal(err)
			}
			ends := b.terminals(req.ExecutionID)
			if len(ends) != 1 || ends[0].Seq != seq || ends[0].Type != events.TypeExecutionCancelled {
				t.Fatalf("Cancel returned %d, recorded are %+v", seq, ends)
			}
			end := events.EndingOf(ends[0].Data)
			if end.Attempt != attempt || end.Runner != "" || end.Output != nil || *end.Actor != alice || end.Content.Value().Error.Text != "Cancelled by user" {
				t.Errorf("recorded %+v", end)
			}
			if e := b.entries("s " + name); len(e) != 1 || e[0].Status != events.StatusCancelled || e[0].TerminalSeq != seq {
				t.Errorf("entries %+v", e)
			}
			_, err = b.Cancel(t.Context(), tenant, req.ExecutionID, alice)
			wantCode(t, err, ledger.CodeConflict, "Execution '"+req.ExecutionID+"' is not running (status: cancelled)")
		})
	}
}

func TestCancelRefuses(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	for _, id := range []string{"", "nonsense", "*", ">", "a.b", events.NewID(time.Now())} {
		_, err := b.Cancel(t.Context(), tenant, id, alice)
		wantCode(t, err, ledger.CodeNotFound, "Execution '"+id+"' not found")
	}
	req := b.submit(ledger.Submission{})
	_, err := b.Cancel(t.Context(), "elsewhere", req.ExecutionID, alice)
	wantCode(t, err, ledger.CodeNotFound, req.ExecutionID)

	for _, status := range []events.Status{events.StatusCompleted, events.StatusFailed, events.StatusTimedOut} {
		req := b.submit(ledger.Submission{})
		if _, err := b.Complete(t.Context(), b.start(req, false), status, ledger.Result{}); err != nil {
			t.Fatal(err)
		}
		before := b.lastSeq()
		_, err := b.Cancel(t.Context(), tenant, req.ExecutionID, alice)
		wantCode(t, err, ledger.CodeConflict, "Execution '"+req.ExecutionID+"' is not running (status: "+string(status)+")")
		if b.lastSeq() != before {
			t.Error("a refused cancel was recorded")
		}
	}
}

// If the runner answers a cancel, it records the end, with any status.
func TestCancelAsksTheRunner(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{CancelTimeout: time.Minute})
	for _, status := range []events.Status{events.StatusCancelled, events.StatusCompleted} {
		t.Run(string(status), func(t *testing.T) {
			req := b.submit(ledger.Submission{Session: "s"})
			run := b.start(req, false)
			stop, err := b.store.ListenCancel(tenant, req.ExecutionID, func() bool {
				_, err := b.Complete(context.WithoutCancel(t.Context()), run, status, ledger.Result{Output: events.OutputTotals{Lines: 7}})
				return err == nil
			})
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			seq, err := b.Cancel(t.Context(), tenant, req.ExecutionID, alice)
			ends := b.terminals(req.ExecutionID)
			if len(ends) != 1 || events.EndingOf(ends[0].Data).Output.Lines != 7 {
				t.Fatalf("recorded %+v", ends)
			}
			if status == events.StatusCompleted {
				wantCode(t, err, ledger.CodeConflict, "status: completed")
			} else if err != nil || seq != ends[0].Seq {
				t.Errorf("Cancel returned %d, %v; the end is at %d", seq, err, ends[0].Seq)
			}
		})
	}
}

// If the runner does not answer a cancel in time, the ledger ends the execution.
func TestCancelWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{CancelTimeout: 20 * time.Millisecond})
	req := b.submit(ledger.Submission{})
	run := b.start(req, false)
	stop, err := b.store.ListenCancel(tenant, req.ExecutionID, func() bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	seq, err := b.Cancel(t.Context(), tenant, req.ExecutionID, alice)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := b.Complete(t.Context(), run, events.StatusCompleted, ledger.Result{}); err != nil || e.Seq != seq {
		t.Errorf("the runner received %+v, %v", e, err)
	}
}

// The run ends between the ledger's decision to end it and the append.
func TestCancelLosesAgainstAnEnd(t *testing.T) {
	t.Parallel()
	for _, at := range []events.Type{events.TypeExecutionCancelRequested, events.TypeExecutionCancelled} {
		t.Run(string(at), func(t *testing.T) {
			store := storetest.Start(t)
			b := openTestLedgerOn(t, store, ledger.Options{})
			req := b.submit(ledger.Submission{})
			run := b.start(req, false)
			var once atomic.Bool
			l := ledger.New(&interposed{Store: store, before: func(ctx context.Context, e events.Event) error {
				if e.Type != at || once.Swap(true) {
					return nil
				}
				_, err := b.Complete(ctx, run, events.StatusCompleted, ledger.Result{})
				return err
			}}, ledger.Options{})
			_, err := l.Cancel(t.Context(), tenant, req.ExecutionID, alice)
			wantCode(t, err, ledger.CodeConflict, "status: completed")
			if n := len(b.terminals(req.ExecutionID)); n != 1 {
				t.Errorf("%d recorded ends", n)
			}
		})
	}
}

// Many concurrent cancels succeed: the recorded request of the first counts for all.
func TestConcurrentCancels(t *testing.T) {
	t.Parallel()
	const racers = 150 // more than maxTries
	store := storetest.Start(t)
	b := openTestLedgerOn(t, store, ledger.Options{})
	req := b.submit(ledger.Submission{})
	b.start(req, false)
	var tried atomic.Int64
	met := make(chan struct{})
	l := ledger.New(&interposed{Store: store, before: func(ctx context.Context, e events.Event) error {
		if e.Type != events.TypeExecutionCancelRequested {
			return nil
		}
		if tried.Add(1) == racers {
			close(met)
		}
		select {
		case <-met:
		case <-ctx.Done():
		}
		return context.Cause(ctx)
	}}, ledger.Options{AnswerTimeout: time.Minute, CancelTimeout: time.Millisecond, Logger: storetest.Logger(t)})
	errs, positions := make([]error, racers), make([]uint64, racers)
	var wg sync.WaitGroup
	for i := range racers {
		wg.Go(func() { positions[i], errs[i] = l.Cancel(t.Context(), tenant, req.ExecutionID, alice) })
	}
	wg.Wait()
	ends := b.terminals(req.ExecutionID)
	if len(ends) != 1 {
		t.Fatalf("%d recorded ends", len(ends))
	}
	for i, err := range errs {
		switch {
		case ledger.CodeOf(err) == ledger.CodeConflict: // the call came after the end
		case err != nil || positions[i] != ends[0].Seq:
			t.Errorf("a cancel returned %d, %v; the end is at %d", positions[i], err, ends[0].Seq)
		}
	}
	if n := tried.Load(); n != racers {
		t.Errorf("%d cancels tried %d times to record their request", racers, n)
	}
}
