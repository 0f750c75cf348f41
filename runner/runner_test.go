package runner_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/ledger"
	"daybook/runner"
)

func TestCompletedRun(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	heap := []byte("a heap")
	r, drain := b.startRunner(b.options(workers{func(ctx context.Context, task runner.Task, lines func(context.Context, []events.Line) error) (runner.Outcome, error) {
		if string(task.Code) != "1" || task.HeapLimitBytes != 64<<20 || task.Timeout.Seconds() != 30 || !task.Stateful || task.Heap != nil {
			t.Errorf("unexpected task %+v", task)
		}
		if err := lines(ctx, []events.Line{{Text: "hello"}, {Text: "[WARN] world", Level: events.LevelWarn}}); err != nil {
			return runner.Outcome{}, err
		}
		out := completed("42")
		out.Heap = heap
		return out, nil
	}}))
	id := b.submit(func(s *ledger.Submission) {
		s.Session = "notes"
		s.Tags = map[string]string{"k": "v"}
	})
	entry := b.waitAny(isType(events.TypeSessionEntryRecorded))
	drain()

	all, err := b.store.Read(t.Context(), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	want := []events.Type{
		events.TypeExecutionRequested, events.TypeExecutionStarted, events.TypeExecutionOutput,
		events.TypeExecutionCompleted, events.TypeHeapTagged, events.TypeSessionEntryRecorded,
	}
	if diff := cmp.Diff(want, types(all)); diff != "" {
		t.Fatalf("events (-want +got):\n%s", diff)
	}
	end := events.EndingOf(all[3].Data)
	wantHeap := &events.HeapRecord{SHA256: events.Hash(heap), Size: int64(len(heap)), EngineID: engine.ID}
	if diff := cmp.Diff(wantHeap, end.Heap); diff != "" {
		t.Errorf("heap (-want +got):\n%s", diff)
	}
	const output = "hello\n[WARN] world\n"
	wantTotals := &events.OutputTotals{Lines: 2, Bytes: int64(len(output)), SHA256: events.Hash([]byte(output))}
	if diff := cmp.Diff(wantTotals, end.Output); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
	if got := text(all); got != output {
		t.Errorf("output is %q, want %q", got, output)
	}
	if got := *end.Content.Value().Result; got.Text != "42" {
		t.Errorf("result is %+v, want 42", got)
	}
	if got := entry.Data.(*events.SessionEntryRecorded); got.OutputHeap != wantHeap.SHA256 || got.ExecutionID != id {
		t.Errorf("entry is %+v", got)
	}
	if blob, info, err := b.store.Heap(t.Context(), events.DefaultTenant, wantHeap.SHA256); err != nil || string(blob) != string(heap) || info.EngineID != engine.ID {
		t.Errorf("stored heap is %q, %+v, %v", blob, info, err)
	}
	stats := runner.Stats{Done: map[events.Status]int64{events.StatusCompleted: 1}}
	got := r.Stats()
	var runs uint64
	for _, n := range got.QueueTimes[events.DefaultTenant].Counts {
		runs += n
	}
	if runs != 1 || len(got.QueueTimes) != 1 {
		t.Errorf("queue times are %v, want one of the tenant", got.QueueTimes)
	}
	got.QueueTimes = nil
	if diff := cmp.Diff(stats, got); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
}
