package ledger_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/ledger"
)

func TestPlanOfAFirstDelivery(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 678_900_000, time.FixedZone("", 3600))
	b := openTestLedger(t, ledger.Options{Now: func() time.Time { return now }})
	req := b.submit(ledger.Submission{Code: "1"})
	p, err := b.Plan(t.Context(), req, false)
	if err != nil {
		t.Fatal(err)
	}
	other, _ := b.Plan(t.Context(), req, false)
	if p.Attempt != 1 || p.FirstLine != 1 || p.FirstByte != 0 || p.Position != 0 || p.Ended != nil || p.Seed == other.Seed {
		t.Errorf("plan %+v", p)
	}
	if want := "2026-01-02T02:04:05.678Z"; events.FormatTime(p.StartTime) != want || p.StartTime.Nanosecond()%1e6 != 0 {
		t.Errorf("start time %v, want %s", p.StartTime, want)
	}
	run, err := b.Start(t.Context(), p, ledger.Start{Runner: "r", Engine: robot.Engine, InputHeap: heapA, Layers: []string{"seccomp"}, Warnings: make([]string, 100)})
	if err != nil {
		t.Fatal(err)
	}
	started := b.control(req.ExecutionID)[1]
	d := started.Data.(*events.ExecutionStarted)
	if run.Position != started.Seq || run.InputHeap != heapA || d.InputHeap != heapA || d.Limits != req.Limits || len(d.Seed) != 32 || len(d.Warnings) > 32 {
		t.Errorf("run %+v, recorded %+v", run, d)
	}
}

func TestPlanRepeatsTheFirstAttempt(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	req := b.submit(ledger.Submission{Code: "1"})
	first := b.start(req, false)
	for attempt := 2; attempt <= ledger.MaxAttempts; attempt++ {
		run := b.start(req, true)
		if p := run.Plan; p.Attempt != attempt || p.Seed != first.Plan.Seed || !p.StartTime.Equal(first.Plan.StartTime) {
			t.Errorf("attempt %d: %+v, the first was %+v", attempt, p, first.Plan)
		}
	}
	p, err := b.Plan(t.Context(), req, true)
	if err != nil || p.Ended == nil {
		t.Fatalf("%+v, %v", p, err)
	}
	end := events.EndingOf(p.Ended.Data)
	if p.Ended.Type != events.TypeExecutionFailed || end.Reason != "attempts_exhausted" || end.Attempt != 3 || end.Output != nil || end.Runner != "" ||
		end.Content.Value().Error.Text != "Daybook made 3 attempts to run this script. Each ended without a result, because the runner or its worker process failed. There is no further attempt." {
		t.Errorf("ended %+v", end)
	}
	if again, err := b.Plan(t.Context(), req, true); err != nil || again.Ended == nil || again.Ended.Seq != p.Ended.Seq {
		t.Errorf("planned again: %+v, %v", again, err)
	}
	if _, err := b.Start(t.Context(), p, robot); !errors.As(err, new(*ledger.EndedError)) {
		t.Errorf("start of an ended plan: %v", err)
	}
}

func TestHandBackCostsNoAttempt(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	req := b.submit(ledger.Submission{Code: "1"})
	seed := b.start(req, false).Plan.Seed
	for range 5 {
		run := b.start(req, true)
		if run.Plan.Attempt != 2 || run.Plan.Seed != seed {
			t.Fatalf("plan %+v", run.Plan)
		}
		if err := b.HandBack(t.Context(), run, "draining"); err != nil {
			t.Fatal(err)
		}
	}
	if run := b.start(req, true); run.Plan.Attempt != 2 {
		t.Errorf("attempt %d after hand-backs", run.Plan.Attempt)
	}
	if run := b.start(req, true); run.Plan.Attempt != 3 {
		t.Errorf("attempt %d after a death", run.Plan.Attempt)
	}
}

func TestHandBackOfASupersededRun(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	req := b.submit(ledger.Submission{Code: "1"})
	old := b.start(req, false)
	current := b.start(req, true)
	if err := b.HandBack(t.Context(), old, "draining"); !errors.Is(err, ledger.ErrSuperseded) {
		t.Errorf("superseded: %v", err)
	}
	// A request to cancel in between does not prevent it.
	b.append(&events.ExecutionCancelRequested{ExecutionID: req.ExecutionID, Actor: alice})
	if err := b.HandBack(t.Context(), current, "draining"); err != nil {
		t.Errorf("after a cancel request: %v", err)
	}
	if p, err := b.Plan(t.Context(), req, true); err != nil || p.Ended == nil || p.Ended.Type != events.TypeExecutionCancelled {
		t.Errorf("planned %+v, %v", p, err)
	}
	var ended *ledger.EndedError
	if err := b.HandBack(t.Context(), current, "draining"); !errors.As(err, &ended) || ended.Event.Type != events.TypeExecutionCancelled {
		t.Errorf("ended: %v", err)
	}
}

func TestPlanCarriesOutACancel(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	req := b.submit(ledger.Submission{Code: "1", Session: "s"})
	b.append(&events.ExecutionCancelRequested{ExecutionID: req.ExecutionID, Actor: alice})
	// Start rejects the plan of a first delivery, which was made without a read.
	p, err := b.Plan(t.Context(), req, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Start(t.Context(), p, robot); !errors.Is(err, ledger.ErrReplan) {
		t.Fatalf("start: %v", err)
	}
	p, err = b.Plan(t.Context(), req, true)
	if err != nil || p.Ended == nil {
		t.Fatalf("%+v, %v", p, err)
	}
	end := events.EndingOf(p.Ended.Data)
	if p.Ended.Type != events.TypeExecutionCancelled || end.Attempt != 0 || *end.Actor != alice || end.Content.Value().Error.Text != "Cancelled by user" {
		t.Errorf("ended %+v", end)
	}
	if n := len(b.entries("s")); n != 1 {
		t.Errorf("%d session entries", n)
	}
}

func TestStartAfterAnEnd(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	req := b.submit(ledger.Submission{Code: "1"})
	p, _ := b.Plan(t.Context(), req, false)
	if _, err := b.Cancel(t.Context(), tenant, req.ExecutionID, alice); err != nil {
		t.Fatal(err)
	}
	var ended *ledger.EndedError
	if _, err := b.Start(t.Context(), p, robot); !errors.As(err, &ended) || ended.Event.Type != events.TypeExecutionCancelled {
		t.Fatalf("start: %v", err)
	}
}

func TestPlanRefusesANewerHistory(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	req := b.submit(ledger.Submission{Code: "1"})
	run := b.start(req, false)
	b.append(fromTheFuture(req.ExecutionID))
	before := b.lastSeq()

	_, err := b.Plan(t.Context(), req, true)
	wantCode(t, err, ledger.CodeUnavailable, "newer version", "paused")
	_, err = b.Cancel(t.Context(), tenant, req.ExecutionID, alice)
	wantCode(t, err, ledger.CodeUnavailable, "newer version")
	_, err = b.Complete(t.Context(), run, events.StatusCompleted, ledger.Result{})
	wantCode(t, err, ledger.CodeUnavailable, "newer version")
	if b.lastSeq() != before {
		t.Error("an event was added to a history with an unknown event")
	}
}

func TestPlanOfAnUnknownExecution(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	req := ledger.Request{Tenant: tenant}
	req.ExecutionID = events.NewID(time.Now())
	_, err := b.Plan(t.Context(), req, true)
	wantCode(t, err, ledger.CodeNotFound, req.ExecutionID)
}

func TestPlanOfADamagedSeed(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	req := b.submit(ledger.Submission{Code: "1"})
	b.append(&events.ExecutionStarted{ExecutionID: req.ExecutionID, Attempt: 1, Seed: "short", FirstLine: 1})
	if _, err := b.Plan(t.Context(), req, true); !errors.Is(err, events.ErrDamaged) || !strings.Contains(err.Error(), `"short"`) {
		t.Errorf("plan: %v", err)
	}
}

func TestPlanContinuesTheOutput(t *testing.T) {
	t.Parallel()
	type chunk struct {
		attempt     int
		line, start int64
		lines       []events.Line
	}
	whole := func(text string) events.Line { return events.Line{Text: text} }
	part := func(text string) events.Line { return events.Line{Text: text, Continued: true} }
	tests := []struct {
		name       string
		chunks     []chunk
		line, byte int64
	}{
		{"nothing written", nil, 1, 0},
		{"whole lines", []chunk{{1, 1, 0, []events.Line{whole("ab"), whole("")}}}, 3, 4},
		{"several chunks", []chunk{{1, 1, 0, []events.Line{whole("ab")}}, {1, 2, 3, []events.Line{whole("é")}}}, 3, 6},
		{"an open line is ended", []chunk{{1, 1, 0, []events.Line{whole("ab"), part("cd")}}}, 3, 6},
		{"pieces of one line", []chunk{{1, 1, 0, []events.Line{part("ab")}}, {1, 1, 2, []events.Line{part("cd")}}, {1, 1, 4, []events.Line{whole("e")}}}, 2, 6},
		{"an open line without text", []chunk{{1, 1, 0, []events.Line{part("")}}}, 2, 1},
		{"a repetition does not count", []chunk{{1, 1, 0, []events.Line{whole("ab")}}, {1, 1, 0, []events.Line{whole("ab")}}}, 2, 3},
		{"a chunk after a gap does not count", []chunk{{1, 1, 0, []events.Line{whole("ab")}}, {1, 3, 9, []events.Line{whole("zz")}}}, 2, 3},
		{"another attempt's does not count", []chunk{{7, 1, 0, []events.Line{whole("ab")}}}, 1, 0},
	}
	b := openTestLedger(t, ledger.Options{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req := b.submit(ledger.Submission{Code: "1"})
			run := b.start(req, false)
			for _, c := range tt.chunks {
				run.Plan.Attempt = c.attempt
				if _, err := b.AppendOutput(t.Context(), run, c.line, c.start, c.lines); err != nil {
					t.Fatal(err)
				}
			}
			next := b.start(req, true)
			if next.Plan.FirstLine != tt.line || next.Plan.FirstByte != tt.byte {
				t.Fatalf("continues at line %d, byte %d; want %d, %d", next.Plan.FirstLine, next.Plan.FirstByte, tt.line, tt.byte)
			}
			// The attempt before still writes, but that output is void. The third attempt
			// continues after the second.
			run.Plan.Attempt = 1
			if _, err := b.AppendOutput(t.Context(), run, tt.line, tt.byte, []events.Line{whole("late")}); err != nil {
				t.Fatal(err)
			}
			if _, err := b.AppendOutput(t.Context(), next, tt.line, tt.byte, []events.Line{whole("x")}); err != nil {
				t.Fatal(err)
			}
			third := b.start(req, true)
			if third.Plan.FirstLine != tt.line+1 || third.Plan.FirstByte != tt.byte+2 {
				t.Errorf("then at line %d, byte %d", third.Plan.FirstLine, third.Plan.FirstByte)
			}
		})
	}
}

// The started event warns that a script was started again, and from which line on.
func TestStartWarnsOfEarlierOutput(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	run := b.start(b.submit(ledger.Submission{}), false)
	if w := startedOf(t, b, run).Warnings; len(w) != 0 {
		t.Errorf("the first attempt warns %q", w)
	}
	if _, err := b.AppendOutput(t.Context(), run, 1, 0, []events.Line{{Text: "one"}, {Text: "two"}}); err != nil {
		t.Fatal(err)
	}
	again := b.start(run.Plan.Request, true)
	if w := startedOf(t, b, again).Warnings; len(w) != 1 || !strings.Contains(w[0], "before line 3") {
		t.Errorf("the second attempt warns %q", w)
	}
}

func startedOf(t *testing.T, b *testLedger, run *ledger.StartedAttempt) *events.ExecutionStarted {
	t.Helper()
	list, err := b.History(t.Context(), tenant, run.Plan.Request.ExecutionID)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range slices.Backward(list) {
		if d, ok := e.Data.(*events.ExecutionStarted); ok {
			return d
		}
	}
	t.Fatal("no attempt is recorded")
	return nil
}
