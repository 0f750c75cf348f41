package ledger_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/internal/store/storetest"
	"daybook/ledger"
)

func TestFinalizeTags(t *testing.T) {
	t.Parallel()
	type tags = map[string]string
	heap := &events.HeapRecord{SHA256: heapA}
	tests := []struct {
		name   string
		tags   tags
		status events.Status
		heap   *events.HeapRecord
		want   bool
	}{
		{"given", tags{"k": "v"}, events.StatusCompleted, heap, true},
		{"cleared", tags{}, events.StatusCompleted, heap, true},
		{"omitted", nil, events.StatusCompleted, heap, false},
		{"failed with a heap", tags{"k": "v"}, events.StatusFailed, heap, false},
		{"timed out", tags{"k": "v"}, events.StatusTimedOut, nil, false},
		{"no heap", tags{"k": "v"}, events.StatusCompleted, nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := openTestLedger(t, ledger.Options{})
			req := b.submit(ledger.Submission{Tags: tt.tags})
			end, err := b.Complete(t.Context(), b.start(req, false), tt.status, ledger.Result{Heap: tt.heap})
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // again, as after a redelivery
				if err := b.Finalize(t.Context(), req, end); err != nil {
					t.Fatal(err)
				}
			}
			var want []*events.HeapTagged
			if tt.want {
				want = []*events.HeapTagged{{
					Heap: heapA, Content: events.Plain(events.TagContent{Tags: tt.tags}), Edit: events.EditRun,
					ExecutionID: req.ExecutionID, AppliesAt: end.Seq, Actor: alice,
				}}
			}
			if diff := cmp.Diff(want, b.edits(heapA)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFinalizeEntries(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	b := openTestLedger(t, ledger.Options{})
	var want []*events.SessionEntryRecorded
	finish := func(status events.Status, restored string, heap *events.HeapRecord) {
		t.Helper()
		req := b.submit(ledger.Submission{Session: "s", Heap: heapB})
		p, err := b.Plan(ctx, req, false)
		if err != nil {
			t.Fatal(err)
		}
		run, err := b.Start(ctx, p, ledger.Start{Runner: "r", InputHeap: restored})
		if err != nil {
			t.Fatal(err)
		}
		end, err := b.Complete(ctx, run, status, ledger.Result{Heap: heap})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Finalize(ctx, req, end); err != nil {
			t.Fatal(err)
		}
		e := &events.SessionEntryRecorded{
			SessionID: events.SessionID(tenant, "s"), Session: "s", Index: int64(len(want)), ExecutionID: req.ExecutionID, Status: status,
			InputHeap: restored, CompletedAt: events.Instant{Time: end.Time}, TerminalSeq: end.Seq,
		}
		if heap != nil {
			e.OutputHeap = heap.SHA256
		}
		want = append(want, e)
	}
	finish(events.StatusCompleted, "", &events.HeapRecord{SHA256: heapA})
	finish(events.StatusFailed, heapB, &events.HeapRecord{SHA256: heapA})
	finish(events.StatusTimedOut, heapB, nil)
	if diff := cmp.Diff(want, b.entries("s")); diff != "" {
		t.Error(diff)
	}
	// Runs without a session leave no entry. Other sessions have indices of their own.
	if _, err := b.Complete(ctx, b.start(b.submit(ledger.Submission{}), false), events.StatusCompleted, ledger.Result{}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Cancel(ctx, tenant, b.submit(ledger.Submission{Session: "t"}).ExecutionID, alice); err != nil {
		t.Fatal(err)
	}
	if len(b.entries("s")) != 3 || len(b.entries("t")) != 1 || b.entries("t")[0].Index != 0 {
		t.Errorf("%d and %d entries", len(b.entries("s")), len(b.entries("t")))
	}
}

// The session entry holds the heap that the last attempt restored, also if another runner
// finalizes.
func TestFinalizeUsesTheLastAttempt(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	req := b.submit(ledger.Submission{Session: "s", Heap: heapA})
	b.start(req, false) // restored no heap, and its runner died
	p, _ := b.Plan(t.Context(), req, true)
	run, err := b.Start(t.Context(), p, ledger.Start{InputHeap: heapA})
	if err != nil {
		t.Fatal(err)
	}
	end, err := b.Finish(t.Context(), run, events.StatusCompleted, ledger.Result{})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Finalize(t.Context(), req, end); err != nil {
		t.Fatal(err)
	}
	if got := b.entries("s"); len(got) != 1 || got[0].InputHeap != heapA {
		t.Errorf("entries %+v", got)
	}
}

func TestFinalizeRefusesOtherEvents(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	req := b.submit(ledger.Submission{Session: "s"})
	if err := b.Finalize(t.Context(), req, b.control(req.ExecutionID)[0]); err == nil || len(b.entries("s")) != 0 {
		t.Errorf("finalized a running execution: %v", err)
	}
}

// Several runners of two processes end runs of one session and finalize them twice. Indices
// are contiguous, and every run has one entry. Within one process, the order of the entries
// is that of the ends.
func TestConcurrentFinalizing(t *testing.T) {
	t.Parallel()
	for _, processes := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d processes", processes), func(t *testing.T) {
			t.Parallel()
			store := storetest.Start(t)
			var ledgers []*testLedger
			for range processes {
				ledgers = append(ledgers, openTestLedgerOn(t, store, ledger.Options{}))
			}
			var wg sync.WaitGroup
			for i := range 30 {
				b := ledgers[i%processes]
				req := b.submit(ledger.Submission{Session: "s"})
				if i%5 == 0 {
					wg.Go(func() {
						if _, err := b.Cancel(t.Context(), tenant, req.ExecutionID, alice); err != nil {
							t.Error(err)
						}
					})
					continue
				}
				run := b.start(req, false)
				wg.Go(func() {
					end, err := b.Complete(t.Context(), run, events.StatusCompleted, ledger.Result{})
					if err != nil {
						t.Error(err)
						return
					}
					if err := ledgers[(i+1)%processes].Finalize(t.Context(), req, end); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			seen := map[string]bool{}
			last := uint64(0)
			entries := ledgers[0].entries("s")
			for i, e := range entries {
				if e.Index != int64(i) || seen[e.ExecutionID] {
					t.Errorf("entry %d has index %d, execution seen before: %t", i, e.Index, seen[e.ExecutionID])
				}
				if processes == 1 && e.TerminalSeq < last {
					t.Errorf("entry %d: its end at %d precedes %d", i, e.TerminalSeq, last)
				}
				seen[e.ExecutionID], last = true, e.TerminalSeq
			}
			if len(entries) != 30 {
				t.Errorf("%d entries", len(entries))
			}
		})
	}
}
