package projections_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/internal/dev/tier"
	"daybook/projections"
)

func millis(ms int64) string { return events.FormatTime(time.UnixMilli(ms)) }

// life generates the events of one execution as an intact ledger may hold them: with
// repetitions, chunks of superseded attempts, attempts planned before the last chunks
// of the attempt before were stored, and output after the end.
type life struct {
	rnd      *rand.Rand
	extent   events.Extent
	plan     events.Extent // where an attempt planned now would start
	chunks   []*events.ExecutionOutput
	ended    bool
	attempts int
}

var alphabet = []string{"a", "b", " ", "\r", "\t", "\x01", "é", "ß", "世", "界", "\u2028", "\ufffd", "😀", "👩‍👩‍👧", "\U0010ffff"}

func (l *life) line() events.Line {
	var b strings.Builder
	n := l.rnd.IntN(8)
	if l.rnd.IntN(40) == 0 {
		n = 500
	}
	for range n {
		b.WriteString(alphabet[l.rnd.IntN(len(alphabet))])
	}
	levels := []events.Level{"", events.LevelWarn, events.LevelError, events.LevelDebug}
	return events.Line{Text: b.String(), Level: levels[l.rnd.IntN(len(levels))], TimeMillis: l.rnd.Int64N(4e12) - 1e12, Continued: l.rnd.IntN(4) == 0}
}

func (l *life) chunk() *events.ExecutionOutput {
	lines := make([]events.Line, 1+l.rnd.IntN(6))
	for i := range lines {
		lines[i] = l.line()
	}
	return output(1, l.extent.Attempt, l.extent, lines...)
}

func (l *life) next() events.Data {
	switch n := l.rnd.IntN(100); {
	case l.extent.Attempt == 0 || n < 8: // another attempt
		l.attempts++
		d := started(1, l.attempts, l.plan, "")
		l.extent = events.ExtentFrom(d)
		return d
	case n < 12 && len(l.chunks) > 0: // a repetition, or of an earlier attempt
		return l.chunks[l.rnd.IntN(len(l.chunks))]
	case n < 13:
		return &events.ExecutionCancelRequested{ExecutionID: id(1), Actor: client}
	case n < 15 && !l.ended:
		l.ended = true
		return ended(1, events.StatusCompleted)
	default:
		d := l.chunk()
		l.chunks = append(l.chunks, d)
		l.extent.Add(d)
		if l.rnd.IntN(3) > 0 { // otherwise the next plan does not know of it
			l.plan.Line, l.plan.Byte = l.extent.Next()
		}
		return d
	}
}

func TestPagesAreThoseOfTheText(t *testing.T) {
	t.Parallel()
	for seed := range uint64(tier.Choose(6, 15)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, 1))
			b, s := newMemoryLedger(), open(t, projections.Options{})
			b.add(requested(1))
			ref := &reference{status: events.StatusRunning}
			l := &life{rnd: rnd, plan: fresh}
			for range 120 {
				for range 1 + rnd.IntN(3) {
					d := l.next()
					b.add(d)
					ref.apply(d)
				}
				apply(t, s, b)
				comparePages(t, s, ref, rnd)
			}
			comparePages(t, s, ref, rnd)
			checkWalks(t, s, ref)
			if !l.ended {
				noAnomalies(t, s) // later ones are about events after the end
			}
		})
	}
}

// comparePages compares pages near all offsets that matter.
func comparePages(t *testing.T, s *projections.Store, ref *reference, rnd *rand.Rand) {
	t.Helper()
	want := ref.page()
	d, err := s.Execution(t.Context(), tenant, id(1))
	if err != nil {
		t.Fatal(err)
	}
	if d.TotalLines != want.TotalLines || d.TotalBytes != want.TotalBytes || d.Status != want.Status {
		t.Fatalf("execution has %d lines, %d bytes, %s; want %d, %d, %s", d.TotalLines, d.TotalBytes, d.Status, want.TotalLines, want.TotalBytes, want.Status)
	}
	lineOffsets := []int64{1, want.TotalLines, want.TotalLines + 1, want.TotalLines + 7, 1 << 62, 1 + rnd.Int64N(want.TotalLines+2)}
	for _, offset := range lineOffsets {
		offset, limit := max(offset, 1), 1+rnd.Int64N(7)
		got, err := s.Output(t.Context(), tenant, id(1), projections.OutputQuery{LineOffset: offset, LineLimit: limit})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(ref.linePage(offset, limit), got); diff != "" {
			t.Fatalf("line page at %d of %d: %s", offset, limit, diff)
		}
		lines, status, err := s.Lines(t.Context(), tenant, id(1), offset, int(limit))
		if err != nil || status != ref.status {
			t.Fatalf("status %s, error %v", status, err)
		}
		if diff := cmp.Diff(ref.outputLines(offset, limit), lines); diff != "" {
			t.Fatalf("lines from %d, %d: %s", offset, limit, diff)
		}
	}
	byteOffsets := []int64{0, want.TotalBytes, want.TotalBytes + 1, 1 << 62, max(want.TotalBytes-1, 0), rnd.Int64N(want.TotalBytes + 2), rnd.Int64N(want.TotalBytes + 2)}
	for _, offset := range byteOffsets {
		limit := 1 + rnd.Int64N(40)
		got, err := s.Output(t.Context(), tenant, id(1), projections.OutputQuery{ByteOffset: &offset, ByteLimit: limit})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(ref.bytePage(offset, limit), got); diff != "" {
			t.Fatalf("byte page at %d of %d: %s", offset, limit, diff)
		}
	}
}

// checkWalks reads all output page by page in both modes.
func checkWalks(t *testing.T, s *projections.Store, ref *reference) {
	t.Helper()
	var byLine, byByte strings.Builder
	for q := (projections.OutputQuery{LineOffset: 1, LineLimit: 3}); ; {
		p, err := s.Output(t.Context(), tenant, id(1), q)
		if err != nil {
			t.Fatal(err)
		}
		byLine.WriteString(p.Data)
		if !p.HasMore || p.Data == "" {
			break
		}
		q.LineOffset = p.NextLineOffset
	}
	var from int64
	for {
		p, err := s.Output(t.Context(), tenant, id(1), projections.OutputQuery{ByteOffset: &from, ByteLimit: 7})
		if err != nil {
			t.Fatal(err)
		}
		byByte.WriteString(p.Data)
		if !p.HasMore {
			break
		}
		from = p.NextByteOffset
	}
	whole := strings.Join(ref.lines()[:ref.whole()], "")
	if byLine.String() != whole || byByte.String() != ref.text() {
		t.Errorf("walked %d bytes by lines and %d by bytes, want %d and %d", byLine.Len(), byByte.Len(), len(whole), len(ref.text()))
	}
}
