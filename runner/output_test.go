package runner_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/ledger"
	"daybook/runner"
)

type sink = func(context.Context, []events.Line) error

func TestFirstLineIsVisibleWhileTheScriptRuns(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	release := make(chan struct{})
	b.startRunner(b.options(workers{func(ctx context.Context, _ runner.Task, lines sink) (runner.Outcome, error) {
		if err := lines(ctx, []events.Line{{Text: "first"}}); err != nil {
			return runner.Outcome{}, err
		}
		<-release
		return completed("1"), nil
	}}))
	id := b.submit()
	got := b.waitFor(id, isType(events.TypeExecutionOutput))
	close(release)
	want := []events.Line{{Text: "first"}}
	if diff := cmp.Diff(want, got.Data.(*events.ExecutionOutput).Content.Value().Lines); diff != "" {
		t.Errorf("first chunk (-want +got):\n%s", diff)
	}
	b.waitForEnd(id)
}

func TestFastLinesShareChunks(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	b.startRunner(b.options(completes(numberedLines(1, 5000)...)))
	id := b.submit()
	b.waitForEnd(id)
	list := b.history(id)
	if want := strings.Join(numberedLines(1, 5000), "\n") + "\n"; text(list) != want {
		t.Error("the output is not what was written")
	}
	chunks := 0
	for _, e := range list {
		if e.Type == events.TypeExecutionOutput {
			chunks++
		}
	}
	if chunks > 500 {
		t.Errorf("5000 lines took %d chunks", chunks)
	}
}

func TestNothingIsRecordedBeforeTheStart(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	release, returned := make(chan struct{}), make(chan struct{})
	opts := b.options(workers{func(ctx context.Context, _ runner.Task, lines sink) (runner.Outcome, error) {
		defer close(returned)
		if err := lines(ctx, []events.Line{{Text: "early"}}); err != nil {
			return runner.Outcome{}, err
		}
		out := completed("1")
		out.Heap = []byte("heap")
		return out, nil
	}})
	var started atomic.Bool
	check := func(what string) {
		if !started.Load() {
			t.Errorf("%s was recorded before the start was acknowledged", what)
		}
	}
	opts.Heaps = heaps{Heaps: b.store, put: func(ctx context.Context, tenant string, blob []byte, engineID string) (string, error) {
		check("the heap")
		return b.store.PutHeap(ctx, tenant, blob, engineID)
	}}
	opts.Ledger = &ledgerPort{
		Ledger: b.ledger,
		start: func(ctx context.Context, p ledger.Plan, s ledger.Start) (*ledger.StartedAttempt, error) {
			<-release
			run, err := b.ledger.Start(ctx, p, s)
			started.Store(true)
			return run, err
		},
		output: func(ctx context.Context, r *ledger.StartedAttempt, firstLine, firstByte int64, lines []events.Line) (uint64, error) {
			check("output")
			return b.ledger.AppendOutput(ctx, r, firstLine, firstByte, lines)
		},
		complete: func(ctx context.Context, r *ledger.StartedAttempt, status events.Status, res ledger.Result) (events.Event, error) {
			check("the end")
			return b.ledger.Complete(ctx, r, status, res)
		},
	}
	b.startRunner(opts)
	id := b.submit()
	receive(t, "the script's end", returned)
	if diff := cmp.Diff([]events.Type{events.TypeExecutionRequested}, types(b.history(id))); diff != "" {
		t.Errorf("events before the start (-want +got):\n%s", diff)
	}
	close(release)
	b.waitForEnd(id)
	want := []events.Type{events.TypeExecutionRequested, events.TypeExecutionStarted, events.TypeExecutionOutput, events.TypeExecutionCompleted}
	if diff := cmp.Diff(want, types(b.history(id))); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// pieces cuts a line as a worker does, without regard to chunks.
func pieces(s string, size int) []events.Line {
	var out []events.Line
	for len(s) > size {
		n := size
		for s[n]&0xC0 == 0x80 {
			n--
		}
		out = append(out, events.Line{Text: s[:n], Continued: true})
		s = s[n:]
	}
	return append(out, events.Line{Text: s})
}

func TestChunksKeepTheirBounds(t *testing.T) {
	t.Parallel()
	random := make([]byte, 10<<20)
	src := rand.New(rand.NewPCG(1, 2))
	for i := range random {
		random[i] = byte(' ' + src.IntN(95))
	}
	const worker = 256 << 10
	tests := []struct {
		name  string
		lines []events.Line
	}{
		{"ten megabytes on one line", pieces(string(random), worker)},
		{"control characters, six bytes each in JSON", pieces(strings.Repeat("\x01", 300<<10), worker)},
		{"characters that JSON for HTML escapes", pieces(strings.Repeat("<", 300<<10), worker)},
		{"separators that JSON escapes", pieces(strings.Repeat("\u2028", 100<<10), worker)},
		{"four-byte characters off every boundary", pieces("x"+strings.Repeat("😀", 100<<10), worker)},
		{"exactly one chunk", []events.Line{{Text: strings.Repeat("a", events.OutputMaxBytes-1)}}},
		{"one byte too many for its line end", []events.Line{{Text: strings.Repeat("a", events.OutputMaxBytes)}}},
		{"one byte too many", []events.Line{{Text: strings.Repeat("a", events.OutputMaxBytes+1)}}},
		{"a continued piece of exactly one chunk", []events.Line{{Text: strings.Repeat("a", events.OutputMaxBytes), Continued: true}, {Text: "b"}}},
		{"a thousand empty lines", make([]events.Line, 1000)},
		{"long lines among short ones", []events.Line{{Text: "a"}, {Text: strings.Repeat("b", 100<<10)}, {Text: "c"}, {Text: strings.Repeat("d", 60<<10)}, {Text: strings.Repeat("e", 60<<10)}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newTestLedger(t)
			var want strings.Builder
			var lines int64
			for _, l := range test.lines {
				want.WriteString(l.Text)
				if !l.Continued {
					want.WriteByte('\n')
					lines++
				}
			}
			b.startRunner(b.options(workers{func(ctx context.Context, _ runner.Task, write sink) (runner.Outcome, error) {
				if err := write(ctx, append([]events.Line(nil), test.lines...)); err != nil {
					return runner.Outcome{}, err
				}
				return completed("1"), nil
			}}))
			id := b.submit()
			_, end := b.waitForEnd(id)
			list := b.history(id)
			if got := text(list); got != want.String() {
				t.Errorf("the output differs: %d bytes, want %d", len(got), want.Len())
			}
			wantTotals := &events.OutputTotals{Lines: lines, Bytes: int64(want.Len()), SHA256: events.Hash([]byte(want.String()))}
			if diff := cmp.Diff(wantTotals, end.Output); diff != "" {
				t.Errorf("totals (-want +got):\n%s", diff)
			}
			for _, e := range list {
				d, ok := e.Data.(*events.ExecutionOutput)
				if !ok {
					continue
				}
				size := int64(0)
				for _, l := range d.Content.Value().Lines {
					size += l.Bytes()
				}
				if n := len(d.Content.Value().Lines); n > events.OutputMaxLines || size > events.OutputMaxBytes {
					t.Errorf("a chunk has %d lines and %d bytes", n, size)
				}
				if _, err := events.Encode(e); err != nil {
					t.Errorf("a chunk does not encode: %v", err)
				}
			}
		})
	}
}

func TestInvalidOutputIsSanitized(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	b.startRunner(b.options(workers{func(ctx context.Context, _ runner.Task, write sink) (runner.Outcome, error) {
		return completed("1"), write(ctx, []events.Line{
			{Text: "bad \xff byte", Level: "shout"},
			{Text: "two\nlines", Level: events.LevelError, TimeMillis: 7, Continued: true},
			{Text: " in one", Level: events.LevelLog},
		})
	}}))
	id := b.submit()
	_, end := b.waitForEnd(id)
	var got []events.Line
	for _, e := range b.history(id) {
		if d, ok := e.Data.(*events.ExecutionOutput); ok {
			got = append(got, d.Content.Value().Lines...)
		}
	}
	want := []events.Line{
		{Text: "bad \uFFFD byte"},
		{Text: "two", Level: events.LevelError, TimeMillis: 7},
		{Text: "lines", Level: events.LevelError, TimeMillis: 7, Continued: true},
		{Text: " in one"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	if want := events.Hash([]byte("bad \uFFFD byte\ntwo\nlines in one\n")); end.Output.SHA256 != want || end.Output.Lines != 3 {
		t.Errorf("totals are %+v, want 3 lines with hash %s", end.Output, want)
	}
}

func TestOutputCap(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		limit int64
		lines []events.Line
		// stored is the recorded text. firstLine and firstByte are those of the
		// truncation mark, or 0 if there is none.
		stored               string
		firstLine, firstByte int64
	}{
		{"below", 100, []events.Line{{Text: "abc"}}, "abc\n", 0, 0},
		{"exactly", 4, []events.Line{{Text: "abc"}}, "abc\n", 0, 0},
		{"uncapped", -1, []events.Line{{Text: strings.Repeat("a", 1000)}}, strings.Repeat("a", 1000) + "\n", 0, 0},
		{"the line end does not fit", 3, []events.Line{{Text: "abc"}, {Text: "d"}}, "abc", 1, 3},
		{"within a line", 6, []events.Line{{Text: "abc"}, {Text: "defg"}, {Text: "h"}}, "abc\nde", 2, 6},
		{"at a line's beginning", 4, []events.Line{{Text: "abc"}, {Text: "defg"}}, "abc\n", 2, 4},
		{"within a character", 3, []events.Line{{Text: "aé€"}}, "aé", 1, 3},
		{"within the next character", 5, []events.Line{{Text: "aé€"}}, "aé", 1, 3},
		{"nothing fits", 1, []events.Line{{Text: "€"}}, "", 1, 0},
		{"far beyond", 10, pieces(strings.Repeat("x", 1<<20), 256<<10), strings.Repeat("x", 10), 1, 10},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newTestLedger(t)
			opts := b.options(workers{func(ctx context.Context, _ runner.Task, write sink) (runner.Outcome, error) {
				for _, l := range test.lines {
					if err := write(ctx, []events.Line{l}); err != nil {
						return runner.Outcome{}, err
					}
				}
				return completed("1"), nil
			}})
			b.ledger = ledger.New(b.store, ledger.Options{OutputMaxBytes: test.limit})
			b.startRunner(opts)
			id := b.submit()
			_, end := b.waitForEnd(id)
			list := b.history(id)
			if got := text(list); got != test.stored {
				t.Errorf("stored %q, want %q", got, test.stored)
			}
			var all strings.Builder
			var lines int64
			for _, l := range test.lines {
				all.WriteString(l.Text)
				if !l.Continued {
					all.WriteByte('\n')
					lines++
				}
			}
			want := &events.OutputTotals{Lines: lines, Bytes: int64(all.Len()), SHA256: events.Hash([]byte(all.String())), Truncated: test.firstLine != 0}
			if diff := cmp.Diff(want, end.Output); diff != "" {
				t.Errorf("totals (-want +got):\n%s", diff)
			}
			var marks []events.ExecutionOutputTruncated
			for _, e := range list {
				if d, ok := e.Data.(*events.ExecutionOutputTruncated); ok {
					marks = append(marks, *d)
				}
			}
			var wantMarks []events.ExecutionOutputTruncated
			if test.firstLine != 0 {
				wantMarks = append(wantMarks, events.ExecutionOutputTruncated{
					ExecutionID: id, Attempt: 1, FirstLine: test.firstLine, FirstByte: test.firstByte, LimitBytes: test.limit,
				})
			}
			if diff := cmp.Diff(wantMarks, marks); diff != "" {
				t.Errorf("marks (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFastScriptWaitsForSlowLedger(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	release, blocked := make(chan struct{}), make(chan int, 1)
	const total = 200_000
	opts := b.options(workers{func(ctx context.Context, _ runner.Task, write sink) (runner.Outcome, error) {
		for i := range total {
			quick, stop := context.WithTimeout(ctx, 200*time.Millisecond)
			err := write(quick, []events.Line{{Text: "a line of output"}})
			stop()
			if err != nil {
				blocked <- i
				if err := write(ctx, []events.Line{{Text: "a line of output"}}); err != nil {
					return runner.Outcome{}, err
				}
				return completed("1"), nil
			}
		}
		blocked <- total
		return completed("1"), nil
	}})
	opts.Ledger = &ledgerPort{Ledger: b.ledger, output: func(ctx context.Context, r *ledger.StartedAttempt, firstLine, firstByte int64, lines []events.Line) (uint64, error) {
		<-release
		return b.ledger.AppendOutput(ctx, r, firstLine, firstByte, lines)
	}}
	b.startRunner(opts)
	id := b.submit()
	accepted := receive(t, "the blocked write", blocked)
	close(release)
	if accepted > 5*events.OutputMaxLines {
		t.Errorf("%d lines were accepted while the ledger was blocked", accepted)
	}
	if _, end := b.waitForEnd(id); end.Output.Lines != int64(accepted)+1 {
		t.Errorf("%d lines are recorded, want %d", end.Output.Lines, accepted+1)
	}
}
