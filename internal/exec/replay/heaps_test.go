package replay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"daybook/events"
	"daybook/internal/exec/replay"
	"daybook/ledger"
	"daybook/runner"
)

// If the heaps of a run and its replay differ, the report names the first global that differs.
func TestHeapDifferences(t *testing.T) {
	s := newTestServer(t)
	other := s.run(`let added = 5, kept = [1]; "x"`)
	seed := func(r *ledger.Recording) { r.Seed[0]++ }
	heapOf := func(hash string) func(*ledger.Recording) {
		return func(r *ledger.Recording) {
			end, heap := *r.Ending, *r.Ending.Heap
			heap.SHA256 = hash
			end.Heap = &heap
			r.Ending = &end
		}
	}
	for _, test := range []struct {
		name, source       string
		change             func(*ledger.Recording)
		recorded, replayed string // parts
	}{
		{"a changed global", `let before = 1, total = { n: Math.random() > 2, m: Math.random() }, zlast = Math.random(); "x"`, seed, "total = { n: false, m: 0.", "total = { n: false, m: 0."},
		{"a global beyond the preview", `var big = Array(200).fill(0); big[150] = Math.random(); "x"`, seed, "… with SHA-256 ", "… with SHA-256 "},
		{"an added global", `let kept = [1]; "x"`, heapOf(other.Ending.Heap.SHA256), "added = 5", "added does not exist"},
		{"a removed global", `let kept = [1], aaa = new Map(); "x"`, heapOf(other.Ending.Heap.SHA256), "aaa does not exist", "aaa = Map(0) {}"},
		{"a closure", `var get = (() => { const secret = Math.random(); return () => secret })(); "x"`, seed, "no global differs; the difference is in what globals refer to or in the engine's own state", ""},
		{"a built-in object", `Math.extra = Math.random(); "x"`, seed, "no global differs; the difference is in", ""},
		{"a part that is not compared", `var deep = {}, at = deep; for (let i = 0; i < 20; i++) at = at.a = { n: i > 15 && Math.random() }; at = 0; "x"`, seed, "no global differs in the part that was compared: 0 globals were not compared, and 1 in part", ""},
		{"a heap that is not stored", `let kept = 1; "x"`, heapOf(strings.Repeat("0", 64)), "0000; the globals were not compared: list the globals of heap 0000", ""},
	} {
		rec := s.run(test.source)
		test.change(rec)
		report := s.replay(rec, s.pool)
		d := report.Difference
		if d == nil || d.Part != events.ReplayHeap || !strings.Contains(d.Recorded, test.recorded) || !strings.Contains(d.Replayed, test.replayed) || d.Recorded == d.Replayed {
			t.Errorf("%s: %s", test.name, describe(report))
		}
		if len(report.Heap) != 64 || report.Heap == rec.Ending.Heap.SHA256 {
			t.Errorf("%s: the heap of the replay is %q", test.name, report.Heap)
		}
	}
}

// countedHeaps counts reads, and changes what they return.
type countedHeaps struct {
	replay.Heaps
	engine string
	err    error
	blob   []byte
}

func (h *countedHeaps) Heap(ctx context.Context, tenant, hash string) ([]byte, events.HeapInfo, error) {
	if h.err != nil {
		return nil, events.HeapInfo{}, h.err
	}
	blob, info, err := h.Heaps.Heap(ctx, tenant, hash)
	if h.engine != "" {
		info.EngineID = h.engine
	}
	h.blob = blob
	return blob, info, err
}

// hostileWorkers returns one outcome for each list.
type hostileWorkers struct {
	runner.Workers
	outcome runner.Outcome
	err     error
}

func (w *hostileWorkers) Run(ctx context.Context, t runner.Task, lines func(context.Context, []events.Line) error) (runner.Outcome, error) {
	if !t.ListGlobals || t.Tenant == "" {
		return runner.Outcome{}, errors.New("no list of a tenant")
	}
	return w.outcome, w.err
}

func TestGlobalsOfAHeap(t *testing.T) {
	s := newTestServer(t)
	rec := s.run(`let list = [1, 2]; function f() {} "x"`)
	hash := rec.Ending.Heap.SHA256
	heaps := &countedHeaps{Heaps: s.store}
	r := replay.New(replay.Options{Workers: s.pool, Heaps: heaps, MaxHeapLimitBytes: 64 << 20})
	last, err := s.store.LastSeq(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	list, err := r.Globals(t.Context(), events.DefaultTenant, hash, 0)
	if err != nil || len(list.Globals) != 2 || list.Globals[0].Name != "f" || list.Globals[1].Preview != "[ 1, 2 ]" {
		t.Errorf("%+v, %v", list, err)
	}
	for skip, want := range []string{"f list", "list", "", ""} {
		list, err := r.Globals(t.Context(), events.DefaultTenant, hash, skip)
		names := []string{}
		for _, g := range list.Globals {
			names = append(names, g.Name)
		}
		if got := strings.Join(names, " "); err != nil || got != want || list.More != 0 {
			t.Errorf("without the first %d: %q, %d more, %v", skip, got, list.More, err)
		}
	}
	// Nothing was recorded, and the stored heap is unchanged.
	if now, err := s.store.LastSeq(t.Context()); err != nil || now != last {
		t.Errorf("%d, was %d, %v", now, last, err)
	}
	if stored, _, err := s.store.StoredHeap(t.Context(), events.DefaultTenant, hash); err != nil || !bytes.Equal(stored, heaps.blob) || events.Hash(stored) != hash {
		t.Errorf("the stored heap: %v", err)
	}
	if _, err := r.Globals(t.Context(), "other", hash, 0); !errors.Is(err, events.ErrNotFound) {
		t.Errorf("another tenant: %v", err)
	}

	heaps.engine = "v8-older"
	if _, err := r.Globals(t.Context(), events.DefaultTenant, hash, 0); ledger.CodeOf(err) != ledger.CodeConflict || !strings.Contains(err.Error(), "was made by engine v8-older and cannot be restored by engine v8-1") {
		t.Errorf("another engine: %v", err)
	}
	heaps.engine = ""
	for _, want := range []error{events.ErrNotFound, events.ErrRemoved, events.ErrDamaged, events.ErrShredded} {
		heaps.err = want
		if _, err := r.Globals(t.Context(), events.DefaultTenant, hash, 0); !errors.Is(err, want) {
			t.Errorf("%v: %v", want, err)
		}
	}
	heaps.err = nil

	text := func(s string) *string { return &s }
	for _, test := range []struct {
		outcome runner.Outcome
		err     error
		want    ledger.Code
	}{
		{runner.Outcome{Status: events.StatusCompleted, Result: text(`{"globals":[],"secret":1}`)}, nil, ledger.CodeUnavailable},
		{runner.Outcome{Status: events.StatusCompleted}, nil, ledger.CodeUnavailable},
		{runner.Outcome{Status: events.StatusFailed, Reason: runner.ReasonProtocol, Error: "<evil>"}, nil, ledger.CodeUnavailable},
		{runner.Outcome{Status: events.StatusFailed, Reason: runner.ReasonOutOfMemory}, nil, ledger.CodeTooLarge},
		{runner.Outcome{Status: events.StatusTimedOut, Reason: runner.ReasonTimeout}, nil, ledger.CodeUnavailable},
		{runner.Outcome{}, errors.New("no worker"), ledger.CodeUnavailable},
	} {
		r := replay.New(replay.Options{Workers: &hostileWorkers{s.pool, test.outcome, test.err}, Heaps: heaps})
		list, err := r.Globals(t.Context(), events.DefaultTenant, hash, 0)
		if ledger.CodeOf(err) != test.want || len(list.Globals) != 0 || strings.Contains(fmt.Sprint(err), "evil") {
			t.Errorf("%+v: %+v, %v", test.outcome, list, err)
		}
	}
}
