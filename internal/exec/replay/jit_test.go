package replay_test

import (
	"strings"
	"testing"

	"daybook/events"
	"daybook/internal/exec/replay"
	"daybook/internal/exec/worker"
	"daybook/internal/store/storetest"
	"daybook/ledger"
)

// newJITPool returns workers that optimize stateful runs.
func newJITPool(t *testing.T) *worker.Pool {
	t.Helper()
	pool := worker.New(worker.Options{JIT: true, Logger: storetest.Logger(t)})
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Errorf("close the workers: %v", err)
		}
	})
	return pool
}

// optimized is a script whose heap depends on the compiler: optimized code keeps 3 as a small integer.
const optimized = `const double = x => x * 2; let sum = 0; for (let i = 0; i < 60000; i++) sum += double(i + 0.5); const kept = [double(1.5)]; sum`

// A run that V8 optimized is replayed by workers that may optimize, and by no others. A run that it
// did not optimize is replayed by both. Each continues from heaps of the other. A migration, which
// does not compare the heap, may replay both anywhere.
func TestReplayHasTheJITOfTheRun(t *testing.T) {
	t.Parallel()
	jit, plain := newJITPool(t), newPool(t)
	with, without := newTestServerOn(t, jit, jit), newTestServerOn(t, plain, plain)
	recorded := map[bool]*ledger.Recording{}
	for on, s := range map[bool]*testServer{true: with, false: without} {
		rec := s.run(optimized)
		recorded[on] = rec
		if rec.Started.Engine.JIT != on {
			t.Errorf("the record has JIT %t, want %t", rec.Started.Engine.JIT, on)
		}
		if strings.Contains(rec.Started.Engine.Flags, "--heap-growing-percent") != on {
			t.Errorf("JIT %t is recorded with the flags %s", on, rec.Started.Engine.Flags)
		}
		next := s.run("kept.push(double(sum)); kept.join()", func(sub *ledger.Submission) { sub.Heap = rec.Ending.Heap.SHA256 })
		for _, rec := range []*ledger.Recording{rec, next} {
			if report := s.replay(rec, jit); report.Verdict != events.ReplayIdentical || report.Engine.JIT != on {
				t.Errorf("JIT %t, replayed by workers that optimize: %s, recorded with JIT %t", on, describe(report), report.Engine.JIT)
			}
			want := string(events.ReplayIdentical)
			if on {
				want = string(events.NotReplayed) + ": " + replay.ReasonJIT
			}
			report := s.replay(rec, plain)
			if describe(report) != want || on && !strings.Contains(report.Message, "--jit=on") {
				t.Errorf("JIT %t, replayed by other workers: %s, %s, want %s", on, describe(report), report.Message, want)
			}
		}
		report, made, err := replay.New(replay.Options{Workers: plain, Heaps: s.store}).Rebuild(t.Context(), nil, rec, nil)
		if err != nil || report.Verdict != events.ReplayIdentical || len(made) == 0 {
			t.Errorf("JIT %t, rebuilt by workers that do not optimize: %s, a heap of %d bytes, %v", on, describe(report), len(made), err)
		}
		stateless := s.run("1", func(sub *ledger.Submission) { sub.Heap = ledger.HeapNone })
		if report := s.replay(stateless, plain); report.Verdict != events.ReplayIdentical || !report.Engine.JIT {
			t.Errorf("a run without a heap: %s, JIT %t", describe(report), report.Engine.JIT)
		}
	}
	if a, b := recorded[true].Ending, recorded[false].Ending; a.Heap.SHA256 == b.Heap.SHA256 || a.Heap.EngineID != b.Heap.EngineID || a.Content.Value().Result.Text != b.Content.Value().Result.Text {
		t.Errorf("with the compiler %+v, without %+v", a.Heap, b.Heap)
	}
}
