package ledger_test

import (
	"strings"
	"testing"

	"daybook/events"
	"daybook/ledger"
)

func TestAppendOutputBounds(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	run := b.start(b.submit(ledger.Submission{Code: "1"}), false)
	line := func(text string) []events.Line { return []events.Line{{Text: text}} }
	tests := []struct {
		name        string
		line, start int64
		lines       []events.Line
		want        string // in the error; empty means accepted
	}{
		{"one line", 1, 0, line("x"), ""},
		{"most lines", 1, 0, make([]events.Line, events.OutputMaxLines), ""},
		{"most bytes, all escaped", 1, 0, line(strings.Repeat("\x01", events.OutputMaxBytes)), ""},
		{"no line", 1, 0, nil, "1 to 256"},
		{"too many lines", 1, 0, make([]events.Line, events.OutputMaxLines+1), "257"},
		{"too many bytes", 1, 0, line(strings.Repeat("x", events.OutputMaxBytes+1)), "65537"},
		{"line 0", 0, 0, line("x"), "from line 1"},
		{"byte -1", 1, -1, line("x"), "byte 0"},
		{"a line end", 1, 0, line("a\nb"), "line end"},
		{"not UTF-8", 1, 0, line("\xff"), "UTF-8"},
		{"endless level", 1, 0, []events.Line{{Level: events.Level(strings.Repeat("x", 1000))}}, "level"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := b.lastSeq()
			seq, err := b.AppendOutput(t.Context(), run, tt.line, tt.start, tt.lines)
			if tt.want != "" {
				wantCode(t, err, ledger.CodeInvalid, tt.want)
				if b.lastSeq() != before {
					t.Error("a refused chunk was recorded")
				}
				return
			}
			if err != nil || seq != before+1 {
				t.Errorf("position %d after %d, %v", seq, before, err)
			}
		})
	}
}

func TestHistoryIsInLedgerOrder(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	req := b.submit(ledger.Submission{Code: "1"})
	run := b.start(req, false)
	// Events of another execution lie in between.
	noise := b.start(b.submit(ledger.Submission{Code: "2"}), false)
	for i := range int64(3) {
		for _, r := range []*ledger.StartedAttempt{run, noise} {
			if _, err := b.AppendOutput(t.Context(), r, 1+i, 2*i, []events.Line{{Text: "x"}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := b.TruncateOutput(t.Context(), run, 4, 6, 6); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Complete(t.Context(), run, events.StatusCompleted, ledger.Result{}); err != nil {
		t.Fatal(err)
	}
	list, err := b.History(t.Context(), tenant, req.ExecutionID)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := types(list), "requested started output output output output_truncated completed"; got != want {
		t.Errorf("history %s, want %s", got, want)
	}
	for i, e := range list {
		if e.About() != req.ExecutionID || i > 0 && e.Seq <= list[i-1].Seq {
			t.Errorf("event %d: %s at %d about %s", i, e.Type, e.Seq, e.About())
		}
	}
	for _, id := range []string{"nonsense", "*", ">", "00000000-0000-7000-8000-000000000000"} {
		_, err := b.History(t.Context(), tenant, id)
		wantCode(t, err, ledger.CodeNotFound, "Execution '"+id+"' not found")
	}
}
