package replay_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"daybook/events"
	"daybook/internal/exec/replay"
	"daybook/ledger"
)

// steps replays a recording step by step, and returns the report and a line for each step.
func (s *testServer) steps(rec *ledger.Recording) (replay.Report, []string) {
	s.t.Helper()
	report, err := replay.New(replay.Options{Workers: s.pool, Heaps: s.store, ExplainRemoval: s.ledger.ExplainRemoval}).ReplaySteps(s.t.Context(), rec)
	if err != nil || report.Timeline == nil {
		s.t.Fatalf("replay: %+v, %v", report, err)
	}
	var lines []string
	for _, step := range report.Timeline.Steps {
		line := fmt.Sprintf("%s %s", step.Kind, step.Name)
		if step.Delay > 0 {
			line += fmt.Sprintf(" %s", step.Delay)
		}
		if step.Call > 0 {
			line += fmt.Sprintf(" #%d", step.Call)
		}
		if step.Failed {
			line += " failed"
		}
		lines = append(lines, strings.TrimSpace(line+" "+step.Text))
	}
	return report, lines
}

// A replay shows timers, calls, answers and output in order, on the script's clock.
func TestTimeline(t *testing.T) {
	s := newTestServer(t)
	rec := s.run(`const t0 = Date.now(), at = () => Date.now() - t0; console.warn("first");
		const a = await mcp.shop.price({ of: "tea" }); const first = at();
		const b = await mcp.shop.buy({}).catch(e => e.message); const second = at();
		setTimeout(function late() { console.log("at", at() - second) }, 20); setImmediate(() => console.log("x".repeat(300000)));
		await new Promise(done => setTimeout(done, 30)); [first, second].join()`)
	result, err := rec.Text(t.Context(), rec.Ending.Content.Value().Result)
	var first, second int64
	if _, scanErr := fmt.Sscanf(string(result), "%d,%d", &first, &second); err != nil || scanErr != nil {
		t.Fatalf("%q, %v, %v", result, err, scanErr)
	}
	report, lines := s.steps(rec)
	want := []string{
		"output warn [WARN] first", `call shop.price #1 {"of":"tea"}`, `answer shop.price #1 {"price":1,"given":{"of":"tea"}}`, "call shop.buy #2 {}", "answer shop.buy #2 failed sold out, try 2",
		"timer setImmediate", "output log " + strings.Repeat("x", 4096) + "…", "timer setTimeout 20ms late", "output log at 20", "timer setTimeout 30ms", "end completed " + string(result),
	}
	if report.Verdict != events.ReplayIdentical || !slices.Equal(lines, want) {
		t.Errorf("%s: %.4000q", describe(report), lines)
	}
	line := report.Timeline
	var times []int64
	for _, step := range line.Steps {
		times = append(times, step.At.UnixMilli()-line.Start.UnixMilli())
	}
	if wanted := []int64{0, 0, first, first, second, second, second, second + 20, second + 20, second + 30, second + 30}; !slices.Equal(times, wanted) {
		t.Errorf("times %v, want %v", times, wanted)
	}
	if !line.Cut || line.Timers != 3 || line.Calls != 2 || line.Answers != 2 || line.Lines != 3 || line.Steps[6].Line != 2 || line.Steps[8].Line != 3 {
		t.Errorf("%+v", line)
	}
	if made := s.tools.made.Load(); made != 2 {
		t.Errorf("%d calls of tools", made)
	}
}

// A timeline is bounded, and counts what it leaves out. The end is always in it.
func TestTimelineIsBounded(t *testing.T) {
	s := newTestServer(t)
	for name, test := range map[string]struct {
		code                 string
		steps, timers, lines int64
	}{
		"lines":  {`for (let i = 0; i < 12000; i++) console.log(i); 1`, 10000, 0, 12000},
		"bytes":  {`for (let i = 0; i < 400; i++) console.log("é".repeat(2040)); console.log("short"); 1`, 256, 0, 401},
		"timers": {`let n = 0; const h = setInterval(() => { if (++n === 10500) clearInterval(h) }, 1); 1`, 10000, 10500, 0},
	} {
		report, lines := s.steps(s.run(test.code))
		line := report.Timeline
		if report.Verdict != events.ReplayIdentical || !line.Cut || line.Timers != test.timers || line.Lines != test.lines || lines[len(lines)-1] != "end completed 1" {
			t.Errorf("%s: %s: %d timers, %d lines, %t", name, describe(report), line.Timers, line.Lines, line.Cut)
		}
		if got := int64(len(line.Steps)) - 1; got != test.steps {
			t.Errorf("%s: %d steps, want %d", name, got, test.steps)
		}
	}
}

// The timeline of a run that was stopped ends where its record ends. One that differs ends at
// the difference.
func TestTimelineOfOtherEnds(t *testing.T) {
	s := newTestServer(t)
	rec := s.run(`console.log("one"); setTimeout(function two() { console.log("two") }, 5); await new Promise(done => setTimeout(done, 10)); while (true) {}`, func(s *ledger.Submission) { s.ExecutionTimeoutSecs = new(1) })
	if report, lines := s.steps(rec); report.Verdict != events.ReplayIdentical || !slices.Equal(lines, []string{"output log one", "timer setTimeout 5ms two", "output log two", "end timed_out"}) {
		t.Errorf("stopped: %s: %q", describe(report), lines)
	}
	rec = s.run(`console.log("one"); console.log(Math.random()); 1`)
	rec.Seed[0] ^= 1
	if report, lines := s.steps(rec); report.Verdict != events.ReplayDifferent || len(lines) != 2 || lines[0] != "output log one" {
		t.Errorf("different: %s: %q", describe(report), lines)
	}
	rec = s.run(`throw new Error("no")`)
	if report, lines := s.steps(rec); report.Verdict != events.ReplayIdentical || len(lines) != 1 || !strings.HasPrefix(lines[0], "end failed Error: no") {
		t.Errorf("thrown: %s: %q", describe(report), lines)
	}
	rec.Started = nil
	report, err := replay.New(replay.Options{Workers: s.pool, Heaps: s.store}).ReplaySteps(t.Context(), rec)
	if err != nil || report.Reason != replay.ReasonNotExecuted || report.Timeline != nil {
		t.Errorf("%+v, %v", report, err)
	}
}

// A timeline shows artifacts at their places.
func TestArtifactsInTimeline(t *testing.T) {
	s := newTestServer(t)
	rec := s.run(`console.log(1); artifact("a.txt", "text/plain", new TextEncoder().encode("one")); console.log(2); artifact("b", "image/png", new Uint8Array(0)); 3`)
	report, lines := s.steps(rec)
	want := []string{"output log 1", "artifact a.txt text/plain, 3 bytes", "output log 2", "artifact b image/png, 0 bytes", "end completed 3"}
	if report.Verdict != events.ReplayIdentical || !slices.Equal(lines, want) || report.Timeline.Artifacts != 2 || report.Timeline.Steps[3].Artifact != 2 {
		t.Errorf("%s: %q", describe(report), lines)
	}
}
