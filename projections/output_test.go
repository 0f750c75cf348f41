package projections_test

import (
	"errors"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/projections"
)

// printed returns a store with one execution that wrote text, and a page that holds the
// fields that do not depend on the query.
func printed(t *testing.T, text string, size int, more ...events.Data) *projections.Store {
	t.Helper()
	b, s := newMemoryLedger(), open(t, projections.Options{})
	b.add(requested(1), started(1, 1, fresh, ""))
	b.print(1, text, size)
	b.add(more...)
	apply(t, s, b)
	noAnomalies(t, s)
	return s
}

func TestLinePages(t *testing.T) {
	t.Parallel()
	const text = "one\n\nthrée\nfour" // 15 bytes; lines start at 0, 4, 5, 12
	tests := []struct {
		name    string
		ended   bool
		q       projections.OutputQuery
		data    string
		numbers [8]int64 // start, end, next, total lines; start, end, next, total bytes
		more    bool
	}{
		{"defaults", true, projections.OutputQuery{}, text, [8]int64{1, 4, 5, 4, 0, 16, 16, 16}, false},
		{"first", true, projections.OutputQuery{LineOffset: 1, LineLimit: 1}, "one\n", [8]int64{1, 1, 2, 4, 0, 4, 4, 16}, true},
		{"empty line", true, projections.OutputQuery{LineOffset: 2, LineLimit: 1}, "\n", [8]int64{2, 2, 3, 4, 4, 5, 5, 16}, true},
		{"middle", true, projections.OutputQuery{LineOffset: 2, LineLimit: 2}, "\nthrée\n", [8]int64{2, 3, 4, 4, 4, 12, 12, 16}, true},
		{"last, without its end", true, projections.OutputQuery{LineOffset: 4, LineLimit: 9}, "four", [8]int64{4, 4, 5, 4, 12, 16, 16, 16}, false},
		{"at the end", true, projections.OutputQuery{LineOffset: 5, LineLimit: 1}, "", [8]int64{5, 4, 5, 4, 16, 16, 16, 16}, false},
		{"past the end", true, projections.OutputQuery{LineOffset: 1 << 62, LineLimit: 1 << 62}, "", [8]int64{1 << 62, 1<<62 - 1, 5, 4, 16, 16, 16, 16}, false},
		{"a line that may grow is counted, and not served", false, projections.OutputQuery{LineOffset: 3, LineLimit: 9}, "thrée\n", [8]int64{3, 3, 4, 4, 5, 12, 12, 16}, true},
		{"waiting for the rest of a line", false, projections.OutputQuery{LineOffset: 4, LineLimit: 9}, "", [8]int64{4, 3, 4, 4, 12, 12, 12, 16}, true},
		{"past a line that may grow", false, projections.OutputQuery{LineOffset: 5, LineLimit: 9}, "", [8]int64{5, 4, 5, 4, 16, 16, 16, 16}, false},
		{"bytes, characters whole", true, projections.OutputQuery{ByteOffset: ptr(int64(5)), ByteLimit: 4}, "thr", [8]int64{3, 3, 3, 4, 5, 8, 8, 16}, true},
		{"bytes, inside a character", true, projections.OutputQuery{ByteOffset: ptr(int64(9)), ByteLimit: 3}, "ée", [8]int64{3, 3, 3, 4, 8, 11, 11, 16}, true},
		{"bytes, one character at least", true, projections.OutputQuery{ByteOffset: ptr(int64(9)), ByteLimit: 1}, "é", [8]int64{3, 3, 3, 4, 8, 10, 10, 16}, true},
		{"bytes, up to a line end", true, projections.OutputQuery{ByteOffset: ptr(int64(0)), ByteLimit: 4}, "one\n", [8]int64{1, 1, 2, 4, 0, 4, 4, 16}, true},
		{"bytes, to the end", true, projections.OutputQuery{ByteOffset: ptr(int64(3)), ByteLimit: 100}, text[3:], [8]int64{1, 4, 5, 4, 3, 16, 16, 16}, false},
		{"bytes, default limit", true, projections.OutputQuery{ByteOffset: ptr(int64(0))}, text, [8]int64{1, 4, 5, 4, 0, 16, 16, 16}, false},
		{"bytes, at the end", true, projections.OutputQuery{ByteOffset: ptr(int64(16)), ByteLimit: 1}, "", [8]int64{5, 4, 5, 4, 16, 16, 16, 16}, false},
		{"bytes, of a line that may grow", false, projections.OutputQuery{ByteOffset: ptr(int64(12)), ByteLimit: 100}, "four", [8]int64{4, 4, 5, 4, 12, 16, 16, 16}, false},
		{"lines are ignored by bytes", true, projections.OutputQuery{LineOffset: -1, LineLimit: -1, ByteOffset: ptr(int64(15)), ByteLimit: 1}, "r", [8]int64{4, 4, 5, 4, 15, 16, 16, 16}, false},
		{"bytes are ignored by lines", true, projections.OutputQuery{LineOffset: 4, LineLimit: 1, ByteLimit: -1}, "four", [8]int64{4, 4, 5, 4, 12, 16, 16, 16}, false},
	}
	for _, size := range []int{2, 5, 100} {
		running := printed(t, text, size)
		over := printed(t, text, size, ended(1, events.StatusFailed))
		for _, tt := range tests {
			s, status := running, events.StatusRunning
			if tt.ended {
				s, status = over, events.StatusFailed
			}
			got, err := s.Output(t.Context(), tenant, id(1), tt.q)
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
				continue
			}
			n := tt.numbers
			want := projections.OutputPage{
				ExecutionID: id(1), Data: tt.data, HasMore: tt.more, Status: status,
				StartLine: n[0], EndLine: n[1], NextLineOffset: n[2], TotalLines: n[3],
				StartByte: n[4], EndByte: n[5], NextByteOffset: n[6], TotalBytes: n[7],
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, in chunks of %d: %s", tt.name, size, diff)
			}
		}
	}
}

func TestOutputOfASilentRun(t *testing.T) {
	t.Parallel()
	for _, s := range []*projections.Store{printed(t, "", 1), printed(t, "", 1, ended(1, events.StatusCompleted))} {
		for _, q := range []projections.OutputQuery{{}, {ByteOffset: ptr(int64(0))}} {
			p, err := s.Output(t.Context(), tenant, id(1), q)
			want := projections.OutputPage{ExecutionID: id(1), StartLine: 1, NextLineOffset: 1, Status: p.Status}
			if diff := cmp.Diff(want, p); diff != "" || err != nil {
				t.Errorf("%s, error %v", diff, err)
			}
		}
	}
}

func TestBadOutputQueries(t *testing.T) {
	t.Parallel()
	s := printed(t, "one\n", 100)
	for field, q := range map[string]projections.OutputQuery{
		"line_offset": {LineOffset: -1},
		"line_limit":  {LineLimit: -1},
		"byte_offset": {ByteOffset: ptr(int64(-1))},
		"byte_limit":  {ByteOffset: ptr(int64(0)), ByteLimit: -5},
	} {
		_, err := s.Output(t.Context(), tenant, id(1), q)
		if !errors.Is(err, projections.ErrBadQuery) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, who := range []struct{ tenant, id string }{{tenant, id(2)}, {"another", id(1)}, {tenant, ""}} {
		if _, err := s.Output(t.Context(), who.tenant, who.id, projections.OutputQuery{}); !errors.Is(err, events.ErrNotFound) {
			t.Errorf("output of %+v: %v", who, err)
		}
		if _, _, err := s.Lines(t.Context(), who.tenant, who.id, 1, 1); !errors.Is(err, events.ErrNotFound) {
			t.Errorf("lines of %+v: %v", who, err)
		}
	}
}

// TestLongLine reads a line of 10 MB in one line page, and in small byte pages.
func TestLongLine(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789世", 10<<20/13) + "\n"
	text := "before\n" + long + "after\n"
	s := printed(t, text, events.OutputMaxBytes, ended(1, events.StatusCompleted))
	p, err := s.Output(t.Context(), tenant, id(1), projections.OutputQuery{LineOffset: 2, LineLimit: 1})
	if err != nil || p.Data != long || p.StartByte != 7 || p.EndByte != 7+int64(len(long)) || !p.HasMore {
		t.Fatalf("%d bytes, [%d, %d), more %v, error %v", len(p.Data), p.StartByte, p.EndByte, p.HasMore, err)
	}
	p, err = s.Output(t.Context(), tenant, id(1), projections.OutputQuery{LineOffset: 3, LineLimit: 1})
	if err != nil || p.Data != "after\n" || p.StartByte != int64(len(text)-6) || p.HasMore {
		t.Errorf("the line behind: %+v, error %v", p, err)
	}
	lines, _, err := s.Lines(t.Context(), tenant, id(1), 2, 10)
	if err != nil || len(lines) != 1 || lines[0].Text+"\n" != long {
		t.Errorf("%d lines, error %v", len(lines), err)
	}
	middle := int64(5 << 20)
	p, err = s.Output(t.Context(), tenant, id(1), projections.OutputQuery{ByteOffset: &middle, ByteLimit: 4096})
	if err != nil || p.Data != text[p.StartByte:p.EndByte] || len(p.Data) < 4093 || p.StartLine != 2 || p.EndLine != 2 || p.NextLineOffset != 2 {
		t.Errorf("[%d, %d) lines %d to %d, error %v", p.StartByte, p.EndByte, p.StartLine, p.EndLine, err)
	}
}

// TestPageBounds checks that limits above the bounds of a page are reduced to the
// bounds.
func TestPageBounds(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("\n", projections.MaxLineLimit+1) + strings.Repeat(strings.Repeat("x", 1<<20-1)+"\n", 17)
	s := printed(t, text, events.OutputMaxBytes)
	p, err := s.Output(t.Context(), tenant, id(1), projections.OutputQuery{LineLimit: 1 << 40})
	if err != nil || len(p.Data) != projections.MaxLineLimit || p.NextLineOffset != projections.MaxLineLimit+1 || !p.HasMore {
		t.Errorf("%d lines, next %d, error %v", p.EndLine, p.NextLineOffset, err)
	}
	p, err = s.Output(t.Context(), tenant, id(1), projections.OutputQuery{LineOffset: projections.MaxLineLimit + 2, LineLimit: 100})
	if err != nil || len(p.Data) != projections.MaxPageBytes || p.EndLine-p.StartLine != 15 || !p.HasMore {
		t.Errorf("%d bytes in lines %d to %d, error %v", len(p.Data), p.StartLine, p.EndLine, err)
	}
	p, err = s.Output(t.Context(), tenant, id(1), projections.OutputQuery{ByteOffset: ptr(int64(0)), ByteLimit: 1 << 40})
	if err != nil || len(p.Data) != projections.MaxPageBytes || p.Data != text[:len(p.Data)] {
		t.Errorf("%d bytes, error %v", len(p.Data), err)
	}
}

// TestPageBoundBeforeALineWithoutEnd checks that a last line without an end is left to
// the next page like any other line.
func TestPageBoundBeforeALineWithoutEnd(t *testing.T) {
	t.Parallel()
	lines := strings.Repeat(strings.Repeat("x", 4<<20-1)+"\n", 3)
	last := strings.Repeat("y", 5<<20)
	s := printed(t, lines+last, events.OutputMaxBytes, ended(1, events.StatusTimedOut))
	p, err := s.Output(t.Context(), tenant, id(1), projections.OutputQuery{})
	if err != nil || p.Data != lines || p.NextLineOffset != 4 || !p.HasMore {
		t.Errorf("%d bytes, lines %d to %d, error %v", len(p.Data), p.StartLine, p.EndLine, err)
	}
	p, err = s.Output(t.Context(), tenant, id(1), projections.OutputQuery{LineOffset: p.NextLineOffset})
	if err != nil || p.Data != last || p.EndLine != 4 || p.HasMore {
		t.Errorf("%d bytes, lines %d to %d, error %v", len(p.Data), p.StartLine, p.EndLine, err)
	}
}

// TestReadersSeeOneMoment checks that a page is consistent while events are committed,
// and that a page with a terminal status has the final totals.
func TestReadersSeeOneMoment(t *testing.T) {
	t.Parallel()
	b, s := newMemoryLedger(), open(t, projections.Options{})
	b.add(requested(1), started(1, 1, fresh, ""))
	apply(t, s, b)
	text := strings.Repeat("a líne\n", 300)
	b.batch = 1
	var readers sync.WaitGroup
	for reader := range 3 {
		readers.Go(func() {
			var before int64
			for from := int64(0); ; {
				changed := s.NextCommit()
				p, err := s.Output(t.Context(), tenant, id(1), projections.OutputQuery{ByteOffset: &from, ByteLimit: 50 + int64(reader)})
				switch {
				case err != nil:
					t.Error(err)
					return
				case p.TotalBytes < before || p.EndByte > p.TotalBytes || p.Data != text[p.StartByte:p.EndByte]:
					t.Errorf("page [%d, %d) of %d bytes, %d before: %q", p.StartByte, p.EndByte, p.TotalBytes, before, p.Data)
					return
				case p.Status.Terminal() && (p.TotalBytes != int64(len(text)) || p.TotalLines != 300):
					t.Errorf("%s with %d bytes", p.Status, p.TotalBytes)
					return
				case p.Status.Terminal() && !p.HasMore:
					return
				case !p.HasMore:
					<-changed
				}
				before, from = p.TotalBytes, p.NextByteOffset
			}
		})
	}
	b.print(1, text, 32)
	b.add(ended(1, events.StatusCompleted))
	follow(t, s, b)
	readers.Wait()
}

// TestOutputThatDoesNotCount distinguishes output that is skipped in an intact ledger
// from output that breaks a rule.
func TestOutputThatDoesNotCount(t *testing.T) {
	t.Parallel()
	end := events.Extent{Line: 2, Byte: 4, Attempt: 1}
	two := events.Extent{Line: 3, Byte: 8, Attempt: 2}
	tests := []struct {
		name    string
		data    []events.Data
		text    string
		anomaly string
	}{
		{"a repetition", []events.Data{output(1, 1, fresh, pieces("one\n")...)}, "one\n", ""},
		{"a chunk after a gap", []events.Data{output(1, 1, events.Extent{Line: 2, Byte: 9}, pieces("x\n")...)}, "one\n", "continues at line 2, byte 9"},
		{"a wrong line number", []events.Data{output(1, 1, events.Extent{Line: 7, Byte: 4}, pieces("x\n")...)}, "one\n", "continues at line 7"},
		{"an attempt that never began", []events.Data{output(1, 2, end, pieces("x\n")...)}, "one\n", "attempt 2"},
		{"an execution that was never requested", []events.Data{output(9, 1, fresh, pieces("x\n")...)}, "one\n", "never requested"},
		{"after the end", []events.Data{ended(1, events.StatusCancelled), output(1, 1, end, pieces("x\n")...)}, "one\n", ""},
		{"a superseded attempt", []events.Data{
			output(1, 1, end, pieces("two")...), started(1, 2, two, ""), output(1, 1, events.Extent{Line: 2, Byte: 7}, pieces("x\n")...), output(1, 2, two, pieces("three\n")...),
		}, "one\ntwo\nthree\n", ""},
		{"stored after the next attempt was planned", []events.Data{
			output(1, 1, end, pieces("two\nthree")...), started(1, 2, end, ""), output(1, 2, end, pieces("2\n")...),
		}, "one\n2\n", ""},
		{"an attempt that begins after a gap", []events.Data{
			started(1, 2, events.Extent{Line: 9, Byte: 99}, ""), output(1, 2, events.Extent{Line: 9, Byte: 99}, pieces("x\n")...),
		}, "one\n", "begins at line 9, byte 99"},
		{"an attempt that begins inside a line", []events.Data{
			started(1, 2, events.Extent{Line: 1, Byte: 2}, ""), output(1, 2, events.Extent{Line: 1, Byte: 0}, pieces("x\n")...),
		}, "x\n", "begins at line 1, byte 2"},
		{"no lines", []events.Data{output(1, 1, end)}, "one\n", ""},
		{"no text", []events.Data{
			output(1, 1, end, events.Line{Continued: true}), output(1, 1, end, events.Line{Continued: true}), output(1, 1, end, pieces("two\n")...),
		}, "one\ntwo\n", ""},
		{"handed back and started again with the same number", []events.Data{
			output(1, 1, end, pieces("tw")...), &events.ExecutionHandedBack{ExecutionID: id(1), Attempt: 1},
			started(1, 1, events.Extent{Line: 3, Byte: 7}, ""), output(1, 1, events.Extent{Line: 3, Byte: 7}, pieces("three\n")...),
		}, "one\ntw\nthree\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b, s := newMemoryLedger(), open(t, projections.Options{})
			b.add(requested(1), started(1, 1, fresh, ""), output(1, 1, fresh, pieces("one\n")...))
			b.add(tt.data...)
			apply(t, s, b)
			p, err := s.Output(t.Context(), tenant, id(1), projections.OutputQuery{ByteOffset: ptr(int64(0))})
			if err != nil || p.Data != tt.text || p.TotalBytes != int64(len(tt.text)) || p.TotalLines != int64(strings.Count(tt.text, "\n")) {
				t.Errorf("output %q, error %v", p.Data, err)
			}
			anomalies := broken(t, s)
			switch {
			case tt.anomaly == "" && len(anomalies) > 0:
				t.Errorf("anomalies %v", anomalies)
			case tt.anomaly != "" && (len(anomalies) == 0 || !strings.Contains(anomalies[0].What, tt.anomaly)):
				t.Errorf("anomalies %v, want %q", anomalies, tt.anomaly)
			}
		})
	}
}

// TestALineWithoutTextOrEnd checks a run that was stopped after it started a line: the
// line counts, and a reader reaches the end.
func TestALineWithoutTextOrEnd(t *testing.T) {
	t.Parallel()
	b, s := newMemoryLedger(), open(t, projections.Options{})
	b.add(requested(1), started(1, 1, fresh, ""), output(1, 1, fresh, events.Line{Text: "one"}, events.Line{Continued: true}), ended(1, events.StatusTimedOut))
	apply(t, s, b)
	p, err := s.Output(t.Context(), tenant, id(1), projections.OutputQuery{LineOffset: 2, LineLimit: 1})
	want := projections.OutputPage{
		ExecutionID: id(1), Status: events.StatusTimedOut, StartLine: 2, EndLine: 2, NextLineOffset: 3, TotalLines: 2,
		StartByte: 4, EndByte: 4, NextByteOffset: 4, TotalBytes: 4,
	}
	if diff := cmp.Diff(want, p); diff != "" || err != nil {
		t.Errorf("%s, error %v", diff, err)
	}
}

func TestTruncatedOutput(t *testing.T) {
	t.Parallel()
	mark := &events.ExecutionOutputTruncated{ExecutionID: id(1), Attempt: 1, FirstLine: 2, FirstByte: 4, LimitBytes: 4}
	s := printed(t, "one\n", 100, mark, ended(1, events.StatusCompleted, func(e *events.Ending) {
		e.Output = &events.OutputTotals{Lines: 500, Bytes: 5000, SHA256: heap(7), Truncated: true}
	}))
	p, err := s.Output(t.Context(), tenant, id(1), projections.OutputQuery{})
	if err != nil || !p.Truncated || p.TotalLines != 1 || p.TotalBytes != 4 || p.HasMore {
		t.Errorf("%+v, error %v", p, err)
	}
	d, err := s.Execution(t.Context(), tenant, id(1))
	if err != nil || !d.OutputTruncated || d.OutputSHA256 == nil || *d.OutputSHA256 != heap(7) ||
		d.WrittenLines == nil || *d.WrittenLines != 500 || d.WrittenBytes == nil || *d.WrittenBytes != 5000 {
		t.Errorf("%+v, error %v", d, err)
	}
}

func TestWrongTotalsAreAnomalies(t *testing.T) {
	t.Parallel()
	b, s := newMemoryLedger(), open(t, projections.Options{})
	b.add(requested(1), started(1, 1, fresh, ""), ended(1, events.StatusCompleted, func(e *events.Ending) {
		e.Output = &events.OutputTotals{Lines: 1, Bytes: 4}
	}))
	apply(t, s, b)
	if list := broken(t, s); len(list) != 1 || list[0].Seq != 3 || !strings.Contains(list[0].What, "counted 1 and 4") {
		t.Errorf("anomalies %v", list)
	}
}

// TestLinesHaveLevelAndTime checks that level and time are those of a line's first
// piece, and that results are also limited by size.
func TestLinesHaveLevelAndTime(t *testing.T) {
	t.Parallel()
	b, s := newMemoryLedger(), open(t, projections.Options{})
	big := strings.Repeat("x", events.OutputMaxBytes-1)
	x := fresh
	x.Attempt = 1
	for range 20 { // 1.3 MB in lines of two pieces
		for _, l := range []events.Line{{Text: big, Level: events.LevelWarn, TimeMillis: -5, Continued: true}, {Text: "!", Level: events.LevelTrace, TimeMillis: 7}} {
			d := output(1, 1, x, l)
			x.Add(d)
			if len(b.all()) == 0 {
				b.add(requested(1), started(1, 1, fresh, ""))
			}
			b.add(d)
		}
	}
	apply(t, s, b)
	lines, status, err := s.Lines(t.Context(), tenant, id(1), 1, 1000)
	if err != nil || status != events.StatusRunning || len(lines) < 3 || len(lines) > 6 {
		t.Fatalf("%d lines, %s, error %v", len(lines), status, err)
	}
	for i, l := range lines {
		if l.Line != int64(i+1) || l.Level != events.LevelWarn || l.Time != "1969-12-31T23:59:59.995Z" || l.Text != big+"!" {
			t.Fatalf("line %d: number %d, level %s, time %s, %d bytes", i+1, l.Line, l.Level, l.Time, len(l.Text))
		}
	}
	if lines, _, err := s.Lines(t.Context(), tenant, id(1), 20, 5); err != nil || len(lines) != 1 {
		t.Errorf("%d lines from the last one on, error %v", len(lines), err)
	}
	if lines, _, err := s.Lines(t.Context(), tenant, id(1), 1, 0); err != nil || len(lines) != 0 {
		t.Errorf("%d lines with limit 0, error %v", len(lines), err)
	}
}

// TestLinesBeforeTheFirst checks that a read from a line number below 1 starts at line
// 1, and that limit counts from there.
func TestLinesBeforeTheFirst(t *testing.T) {
	t.Parallel()
	s := printed(t, "one\ntwo\nthree\n", 4)
	for _, from := range []int64{1, 0, -1, -5, -1 << 63} {
		lines, _, err := s.Lines(t.Context(), tenant, id(1), from, 2)
		if err != nil || len(lines) != 2 || lines[0].Line != 1 || lines[1].Text != "two" {
			t.Errorf("from %d: %+v, error %v", from, lines, err)
		}
	}
	if lines, _, err := s.Lines(t.Context(), tenant, id(1), 2, math.MaxInt); err != nil || len(lines) != 2 {
		t.Errorf("without a limit: %+v, error %v", lines, err)
	}
}
