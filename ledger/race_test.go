package ledger_test

import (
	"errors"
	"sync"
	"testing"

	"daybook/events"
	"daybook/internal/store/storetest"
	"daybook/ledger"
)

// Clients of two processes cancel runs while these are started, ended and handed back. Each
// run ends once, and each caller receives the recorded end.
func TestCancelsAgainstEnds(t *testing.T) {
	t.Parallel()
	store := storetest.Start(t)
	ledgers := []*testLedger{openTestLedgerOn(t, store, ledger.Options{}), openTestLedgerOn(t, store, ledger.Options{})}
	const runs = 50
	var (
		wg      sync.WaitGroup
		ids     [runs]string
		cancels [runs][2]error
		seqs    [runs][2]uint64
		ended   [runs]events.Event
	)
	statuses := []events.Status{events.StatusCompleted, events.StatusFailed, events.StatusTimedOut}
	for i := range runs {
		req := ledgers[0].submit(ledger.Submission{Session: "s"})
		ids[i] = req.ExecutionID
		for c := range 2 {
			wg.Go(func() {
				seqs[i][c], cancels[i][c] = ledgers[c].Cancel(t.Context(), tenant, ids[i], alice)
			})
		}
		wg.Go(func() {
			ended[i] = runToEnd(t, ledgers[i%2], req, statuses[i%3], i%4 == 0)
		})
	}
	wg.Wait()

	byCancel := 0
	for i := range runs {
		ends := ledgers[0].terminals(ids[i])
		if len(ends) != 1 {
			t.Fatalf("run %d has %d ends", i, len(ends))
		}
		end := ends[0]
		if ended[i].Seq != end.Seq || ended[i].Type != end.Type {
			t.Errorf("run %d: the runner received %s at %d, recorded is %s at %d", i, ended[i].Type, ended[i].Seq, end.Type, end.Seq)
		}
		cancelled := end.Type == events.TypeExecutionCancelled
		received := 0
		for c := range 2 {
			switch err := cancels[i][c]; {
			case err == nil:
				received++
				if !cancelled || seqs[i][c] != end.Seq {
					t.Errorf("run %d: a cancel succeeded at %d, recorded is %s at %d", i, seqs[i][c], end.Type, end.Seq)
				}
			case ledger.CodeOf(err) != ledger.CodeConflict:
				t.Errorf("run %d: %v", i, err)
			}
		}
		if cancelled {
			byCancel++
			if received == 0 {
				t.Errorf("run %d was cancelled, but no caller received that", i)
			}
		}
	}
	if n := len(ledgers[0].entries("s")); n != runs {
		t.Errorf("%d session entries of %d runs", n, runs)
	}
	t.Logf("%d of %d runs were cancelled", byCancel, runs)
}

// runToEnd acts as a runner and returns the terminal event that it received.
func runToEnd(t *testing.T, b *testLedger, req ledger.Request, status events.Status, handBack bool) events.Event {
	for redelivered := false; ; redelivered = true {
		p, err := b.Plan(t.Context(), req, redelivered)
		if err != nil {
			t.Error(err)
			return events.Event{}
		}
		run, err := b.Start(t.Context(), p, robot)
		var ended *ledger.EndedError
		switch {
		case errors.As(err, &ended):
			if err := b.Finalize(t.Context(), req, ended.Event); err != nil {
				t.Error(err)
			}
			return ended.Event
		case errors.Is(err, ledger.ErrReplan):
			continue
		case err != nil:
			t.Error(err)
			return events.Event{}
		}
		if handBack {
			handBack = false
			if err := b.HandBack(t.Context(), run, "draining"); err != nil && !errors.As(err, &ended) {
				t.Error(err)
			}
			continue
		}
		e, err := b.Complete(t.Context(), run, status, ledger.Result{})
		if err != nil {
			t.Error(err)
		}
		return e
	}
}
