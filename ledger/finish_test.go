package ledger_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/internal/store/storetest"
	"daybook/ledger"
)

func TestCompleteRecordsTheResult(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	totals := events.OutputTotals{Lines: 2, Bytes: 4, SHA256: events.Hash(nil)}
	usage := events.Usage{CPUMillis: 1, WallMillis: 2, PeakHeapBytes: 3}
	heap := &events.HeapRecord{SHA256: heapB, Size: 9, EngineID: engine}
	full := ledger.Result{
		Value: ptr("2"), Output: totals, Usage: usage, Heap: heap, TranspiledSHA256: heapA, Warnings: []string{"w"},
	}
	failed := full
	failed.Error, failed.Reason = "Error: x\n    at main.ts:1:1", "exception"
	tests := []struct {
		status        events.Status
		res           ledger.Result
		result, error *events.Body
	}{
		{events.StatusCompleted, full, &events.Body{Text: "2"}, nil},
		{events.StatusCompleted, ledger.Result{}, nil, nil},
		{events.StatusCompleted, ledger.Result{Value: ptr("")}, &events.Body{}, nil},
		{events.StatusFailed, failed, nil, &events.Body{Text: failed.Error}},
		{events.StatusTimedOut, ledger.Result{}, nil, &events.Body{Text: "Execution timed out"}},
		{events.StatusCancelled, ledger.Result{}, nil, &events.Body{Text: "Cancelled by user"}},
		{events.StatusFailed, ledger.Result{Error: "a\xffb"}, nil, &events.Body{Text: "a\uFFFDb"}},
	}
	for _, tt := range tests {
		t.Run(string(tt.status), func(t *testing.T) {
			req := b.submit(ledger.Submission{Code: "1"})
			run := b.start(req, false)
			e, err := b.Complete(t.Context(), run, tt.status, tt.res)
			if err != nil {
				t.Fatal(err)
			}
			recorded := b.terminals(req.ExecutionID)
			if len(recorded) != 1 || recorded[0].Seq != e.Seq {
				t.Fatalf("returned %+v, recorded %+v", e, recorded)
			}
			want := events.NewEnding(tt.status, events.Ending{
				ExecutionID: req.ExecutionID, Attempt: 1, Runner: "runner-1", Reason: tt.res.Reason,
				Content: events.Plain(events.EndingContent{Result: tt.result, Error: tt.error}),
				Heap:    tt.res.Heap, Output: &tt.res.Output, TranspiledSHA256: tt.res.TranspiledSHA256, Usage: &tt.res.Usage, Warnings: tt.res.Warnings,
			})
			if diff := cmp.Diff(want, recorded[0].Data); diff != "" {
				t.Error(diff)
			}
		})
	}
	run := b.start(b.submit(ledger.Submission{Code: "1"}), false)
	if _, err := b.Complete(t.Context(), run, events.StatusRunning, ledger.Result{}); err == nil {
		t.Error("a run ended as running")
	}
}

func TestCompleteStoresLargeTextApart(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	for name, text := range map[string]string{
		"long":         strings.Repeat("é", 8<<20),
		"all escapes":  strings.Repeat("\x01", events.InlineBytes),
		"inline":       strings.Repeat("x", events.InlineBytes),
		"one too many": strings.Repeat("x", events.InlineBytes+1),
	} {
		t.Run(name, func(t *testing.T) {
			run := b.start(b.submit(ledger.Submission{Code: "1"}), false)
			e, err := b.Complete(t.Context(), run, events.StatusCompleted, ledger.Result{Value: &text, ValueTruncated: true})
			if err != nil {
				t.Fatal(err)
			}
			content := events.EndingOf(e.Data).Content.Value()
			got := content.Result.Text
			if ref := content.Result.Blob; ref != nil {
				stored, err := b.store.Text(t.Context(), tenant, ref.SHA256)
				if err != nil {
					t.Fatal(err)
				}
				got = string(stored)
			}
			if got != text || !content.ResultTruncated || (name == "inline") != (content.Result.Blob == nil) {
				t.Errorf("result of %d bytes came back as %d, blob %v", len(text), len(got), content.Result.Blob != nil)
			}
		})
	}
}

func TestCompleteAgainstOtherWriters(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	b := openTestLedger(t, ledger.Options{})
	cancelRequested := func(req ledger.Request) {
		b.append(&events.ExecutionCancelRequested{ExecutionID: req.ExecutionID, Actor: alice})
	}

	t.Run("a cancel request does not change the outcome", func(t *testing.T) {
		req := b.submit(ledger.Submission{Code: "1"})
		run := b.start(req, false)
		cancelRequested(req)
		cancelRequested(req)
		if e, err := b.Complete(ctx, run, events.StatusCompleted, ledger.Result{}); err != nil || e.Type != events.TypeExecutionCompleted {
			t.Errorf("%+v, %v", e, err)
		}
	})
	t.Run("the cancelled event of a runner names the client", func(t *testing.T) {
		req := b.submit(ledger.Submission{Code: "1"})
		run := b.start(req, false)
		cancelRequested(req)
		e, err := b.Complete(ctx, run, events.StatusCancelled, ledger.Result{})
		if err != nil {
			t.Fatal(err)
		}
		if end := events.EndingOf(e.Data); end.Actor == nil || *end.Actor != alice || end.Output == nil {
			t.Errorf("ended %+v", end)
		}
	})
	t.Run("the end of another writer is returned", func(t *testing.T) {
		req := b.submit(ledger.Submission{Code: "1"})
		run := b.start(req, false)
		seq, err := b.Cancel(ctx, tenant, req.ExecutionID, alice)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if e, err := b.Finish(ctx, run, events.StatusCompleted, ledger.Result{}); err != nil || e.Seq != seq || e.Type != events.TypeExecutionCancelled {
				t.Errorf("%+v, %v", e, err)
			}
		}
	})
	t.Run("an older attempt does not count", func(t *testing.T) {
		req := b.submit(ledger.Submission{Code: "1"})
		old := b.start(req, false)
		b.start(req, true)
		if _, err := b.Complete(ctx, old, events.StatusCompleted, ledger.Result{}); !errors.Is(err, ledger.ErrSuperseded) {
			t.Errorf("error %v", err)
		}
		if n := len(b.terminals(req.ExecutionID)); n != 0 {
			t.Errorf("%d recorded ends", n)
		}
	})
	t.Run("an attempt that was handed back does not count", func(t *testing.T) {
		run := b.start(b.submit(ledger.Submission{Code: "1"}), false)
		if err := b.HandBack(ctx, run, "draining"); err != nil {
			t.Fatal(err)
		}
		if err := b.HandBack(ctx, run, "draining"); !errors.Is(err, ledger.ErrSuperseded) {
			t.Errorf("handed back twice: %v", err)
		}
		if _, err := b.Complete(ctx, run, events.StatusCompleted, ledger.Result{}); !errors.Is(err, ledger.ErrSuperseded) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("a run ends once if Complete is called repeatedly", func(t *testing.T) {
		req := b.submit(ledger.Submission{Code: "1"})
		run := b.start(req, false)
		first, err := b.Complete(ctx, run, events.StatusCompleted, ledger.Result{})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if e, err := b.Complete(ctx, run, events.StatusFailed, ledger.Result{}); err != nil || e.Seq != first.Seq {
				t.Errorf("%+v, %v", e, err)
			}
		}
		var ended *ledger.EndedError
		if err := b.HandBack(ctx, run, "draining"); !errors.As(err, &ended) || ended.Event.Seq != first.Seq {
			t.Errorf("handed back: %v", err)
		}
		if n := len(b.terminals(req.ExecutionID)); n != 1 {
			t.Errorf("%d recorded ends", n)
		}
	})
}

// An outcome is recorded although the context of the caller is canceled.
func TestDecidedSurvivesTheCaller(t *testing.T) {
	t.Parallel()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	b := openTestLedger(t, ledger.Options{})
	req := b.submit(ledger.Submission{Code: "1", Session: "s", Tags: map[string]string{"k": "v"}})
	run := b.start(req, false)
	if _, err := b.Complete(canceled, run, events.StatusCompleted, ledger.Result{Heap: &events.HeapRecord{SHA256: heapA}}); err != nil {
		t.Fatal(err)
	}
	if got, want := types(b.all()), "requested started completed tagged entry_recorded"; got != want {
		t.Errorf("recorded %s, want %s", got, want)
	}
	run = b.start(b.submit(ledger.Submission{Code: "1"}), false)
	if err := b.HandBack(canceled, run, "draining"); err != nil {
		t.Error(err)
	}
}

// Once the request to cancel is recorded, Cancel succeeds even if the client disconnects.
func TestCancelOutlivesTheClient(t *testing.T) {
	t.Parallel()
	store := storetest.Start(t)
	b := openTestLedgerOn(t, store, ledger.Options{})
	req := b.submit(ledger.Submission{Code: "1"})
	ctx, hangUp := context.WithCancel(t.Context())
	l := ledger.New(&interposed{Store: store, before: func(_ context.Context, e events.Event) error {
		if e.Type.Terminal() {
			hangUp()
		}
		return nil
	}}, ledger.Options{})
	if _, err := l.Cancel(ctx, tenant, req.ExecutionID, alice); err != nil {
		t.Error(err)
	}
	if got := types(b.all()); got != "requested cancel_requested cancelled" {
		t.Errorf("recorded %s", got)
	}
}

func TestStoreFailures(t *testing.T) {
	t.Parallel()
	store := storetest.Start(t)
	b := openTestLedgerOn(t, store, ledger.Options{})
	failing := func(bad events.Type) *ledger.Ledger {
		return ledger.New(&interposed{Store: store, before: func(_ context.Context, e events.Event) error {
			if e.Type == bad {
				return errDisk
			}
			return nil
		}}, ledger.Options{Logger: storetest.Logger(t)})
	}
	wantDisk := func(t *testing.T, err error) {
		t.Helper()
		wantCode(t, err, ledger.CodeUnavailable, "try again")
		if !errors.Is(err, errDisk) {
			t.Errorf("the cause is lost: %v", err)
		}
	}

	t.Run("submit", func(t *testing.T) {
		_, err := failing(events.TypeExecutionRequested).Submit(t.Context(), ledger.Submission{Tenant: tenant})
		wantDisk(t, err)
	})
	t.Run("start", func(t *testing.T) {
		p, _ := b.Plan(t.Context(), b.submit(ledger.Submission{}), false)
		_, err := failing(events.TypeExecutionStarted).Start(t.Context(), p, robot)
		wantDisk(t, err)
	})
	t.Run("output", func(t *testing.T) {
		run := b.start(b.submit(ledger.Submission{}), false)
		_, err := failing(events.TypeExecutionOutput).AppendOutput(t.Context(), run, 1, 0, []events.Line{{Text: "x"}})
		wantDisk(t, err)
		wantDisk(t, failing(events.TypeExecutionOutputTruncated).TruncateOutput(t.Context(), run, 1, 0, 1))
		wantDisk(t, failing(events.TypeExecutionHandedBack).HandBack(t.Context(), run, "draining"))
	})
	t.Run("an end that is not recorded", func(t *testing.T) {
		run := b.start(b.submit(ledger.Submission{}), false)
		e, err := failing(events.TypeExecutionCompleted).Complete(t.Context(), run, events.StatusCompleted, ledger.Result{})
		wantDisk(t, err)
		if e.Seq != 0 {
			t.Errorf("returned %+v", e)
		}
	})
	t.Run("an end that is recorded but not finalized", func(t *testing.T) {
		req := b.submit(ledger.Submission{Session: "late"})
		run := b.start(req, false)
		e, err := failing(events.TypeSessionEntryRecorded).Complete(t.Context(), run, events.StatusCompleted, ledger.Result{})
		wantDisk(t, err)
		if e.Seq == 0 || len(b.entries("late")) != 0 {
			t.Fatalf("returned %+v", e)
		}
		// The redelivery finalizes.
		p, err := b.Plan(t.Context(), req, true)
		if err != nil || p.Ended == nil {
			t.Fatal(err)
		}
		if err := b.Finalize(t.Context(), req, *p.Ended); err != nil || len(b.entries("late")) != 1 {
			t.Errorf("finalized: %v", err)
		}
	})
	t.Run("a cancel that is recorded but not finalized succeeds", func(t *testing.T) {
		req := b.submit(ledger.Submission{Session: "cancelled"})
		if _, err := failing(events.TypeSessionEntryRecorded).Cancel(t.Context(), tenant, req.ExecutionID, alice); err != nil {
			t.Error(err)
		}
	})
}
