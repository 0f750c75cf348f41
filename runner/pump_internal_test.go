package runner

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"daybook/events"
	"daybook/internal/resources/fairness"
	"daybook/ledger"
)

// memoryLog keeps output in memory and checks it by the rules of the ledger.
type memoryLog struct {
	t      *testing.T
	chunks []events.ExecutionOutput
	marks  int
	marked [2]int64
}

func (m *memoryLog) AppendOutput(_ context.Context, _ *ledger.StartedAttempt, firstLine, firstByte int64, lines []events.Line) (uint64, error) {
	if m.marks > 0 {
		m.t.Error("output after the mark")
	}
	if len(lines) == 0 || len(lines) > events.OutputMaxLines {
		m.t.Errorf("a chunk of %d lines", len(lines))
	}
	size := 0
	for _, l := range lines {
		size += len(l.Text)
		if strings.Contains(l.Text, "\n") || !utf8.ValidString(l.Text) {
			m.t.Errorf("line %q is not one line of UTF-8", l.Text)
		}
	}
	if size > events.OutputMaxBytes {
		m.t.Errorf("a chunk of %d bytes", size)
	}
	m.chunks = append(m.chunks, events.ExecutionOutput{FirstLine: firstLine, FirstByte: firstByte, Content: events.Plain(events.OutputContent{Lines: lines})})
	return 1, nil
}

func (m *memoryLog) TruncateOutput(_ context.Context, _ *ledger.StartedAttempt, firstLine, firstByte, _ int64) error {
	m.marks++
	m.marked = [2]int64{firstLine, firstByte}
	return nil
}

// FuzzPump writes arbitrary text in arbitrary pieces, and checks that the recorded
// output is that text, or its beginning, numbered without gaps.
func FuzzPump(f *testing.F) {
	f.Add("hello\nworld\n", uint16(3), int64(0), int64(1), false)
	f.Add("a€😀\xff\n\n", uint16(1), int64(5), int64(100), true)
	f.Add(strings.Repeat("long ", 40_000), uint16(65_535), int64(150_000), int64(7), false)
	f.Fuzz(func(t *testing.T, text string, size uint16, limit, first int64, open bool) {
		first = max(first&0xFFFF_FFFF, 1)
		start := newFuture[*ledger.StartedAttempt]()
		start.set(&ledger.StartedAttempt{}, nil)
		log := &memoryLog{t: t}
		p := newPump(log, &start, ledger.Plan{FirstLine: first, FirstByte: first - 1}, limit)
		done := make(chan error, 1)
		go func() { done <- p.run(t.Context()) }()

		// Pieces may split characters, as those of a faulty worker would. Each piece is
		// made valid separately.
		var want strings.Builder
		for rest := text; ; {
			n := min(max(int(size), 1), len(rest))
			piece := rest[:n]
			rest = rest[n:]
			continued := rest != "" || open
			if err := p.write(t.Context(), []events.Line{{Text: piece, Continued: continued}}); err != nil {
				t.Fatal(err)
			}
			want.WriteString(strings.ToValidUTF8(piece, "\uFFFD"))
			if !continued {
				want.WriteByte('\n')
			}
			if rest == "" {
				break
			}
		}
		all := want.String()
		if open {
			all += "\n" // the pump adds a line end; after a line end of the text, that makes an empty line
		}
		totals, err := p.finish()
		if err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}

		x := events.Extent{Line: first, Byte: first - 1}
		var got strings.Builder
		for _, c := range log.chunks {
			if !x.Add(&c) {
				t.Fatalf("chunk at line %d, byte %d does not follow line %d, byte %d", c.FirstLine, c.FirstByte, x.Line, x.Byte)
			}
			for _, l := range c.Content.Value().Lines {
				got.WriteString(l.Text)
				if !l.Continued {
					got.WriteByte('\n')
				}
			}
		}
		cut := limit > 0 && int64(len(all)) > limit
		switch {
		case !cut && got.String() != all:
			t.Errorf("recorded %d bytes, want %d", got.Len(), len(all))
		case cut && (!strings.HasPrefix(all, got.String()) || int64(got.Len()) > limit || int64(got.Len()) <= limit-utf8.UTFMax):
			t.Errorf("recorded %d bytes of %d with a limit of %d", got.Len(), len(all), limit)
		}
		if cut != (log.marks == 1) || cut != totals.Truncated || log.marks > 1 {
			t.Errorf("%d marks, truncated %v, want %v", log.marks, totals.Truncated, cut)
		}
		if cut && log.marked != [2]int64{x.Line, x.Byte} {
			t.Errorf("the mark is at %v, the output ends at line %d, byte %d", log.marked, x.Line, x.Byte)
		}
		wantTotals := events.OutputTotals{
			Lines:     first - 1 + int64(strings.Count(all, "\n")),
			Bytes:     first - 1 + int64(len(all)),
			SHA256:    events.Hash([]byte(all)),
			Truncated: cut,
		}
		if totals != wantTotals {
			t.Errorf("totals are %+v, want %+v", totals, wantTotals)
		}
	})
}

// delayedLog takes a random time for each chunk.
type delayedLog struct {
	*memoryLog
	rnd *rand.Rand
}

func (d delayedLog) AppendOutput(ctx context.Context, r *ledger.StartedAttempt, firstLine, firstByte int64, lines []events.Line) (uint64, error) {
	time.Sleep(time.Duration(d.rnd.Int64N(int64(300 * time.Millisecond))))
	return d.memoryLog.AppendOutput(ctx, r, firstLine, firstByte, lines)
}

// The recorded output of a stopped run is the beginning of its output, without a gap,
// up to the first refused line. The totals are those of the recorded output.
func TestOutputOfStoppedRunsHasNoGap(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			log := &memoryLog{t: t}
			var pace *outputPace
			if seed%2 == 0 {
				pace = newOutputPace(fairness.Rate{PerSecond: 1 << 20, Burst: 1 << 20})
			}
			p := loggedPump(t, delayedLog{log, rand.New(rand.NewPCG(seed, 2))}, pace, "a", rnd.Int64N(2)*rnd.Int64N(1<<20))
			stopped := errors.New("stopped")
			ctx, stop := context.WithCancelCause(t.Context())
			defer stop(nil)
			end := time.Now().Add(time.Duration(rnd.Int64N(int64(time.Second))))
			time.AfterFunc(time.Until(end), func() { stop(stopped) })
			var want strings.Builder
			refused := false
			for n := 0; !refused && n < 600; n++ {
				l := events.Line{Text: strings.Repeat(string(rune('a'+n%26)), rnd.IntN(20_000)), Continued: rnd.IntN(4) == 0}
				began := time.Now()
				err := p.write(ctx, []events.Line{l})
				if began.Before(end) {
					began = end
				}
				if waited := time.Since(began); waited > stoppedWriteTimeout {
					t.Errorf("seed %d: a line waited for %s after the run was stopped", seed, waited)
				}
				if refused = err != nil; refused {
					if !errors.Is(err, stopped) {
						t.Errorf("seed %d: %v", seed, err)
					}
					break
				}
				want.WriteString(l.Text)
				if !l.Continued {
					want.WriteByte('\n')
				}
				time.Sleep(time.Duration(rnd.Int64N(int64(10 * time.Millisecond))))
			}
			totals, err := p.finish()
			if err != nil || !refused && !totals.Truncated {
				t.Fatalf("seed %d: a line was refused: %v; %+v, %v", seed, refused, totals, err)
			}
			all := want.String()
			if all != "" && !strings.HasSuffix(all, "\n") {
				all += "\n" // the interrupted line gets an end
			}
			if totals.Bytes != int64(len(all)) || totals.SHA256 != events.Hash([]byte(all)) || totals.Lines != int64(strings.Count(all, "\n")) {
				t.Errorf("seed %d: the totals are %+v, want those of %d bytes", seed, totals, len(all))
			}
			var recorded strings.Builder
			line, at := int64(1), int64(0)
			for _, c := range log.chunks {
				if c.FirstLine != line || c.FirstByte != at {
					t.Errorf("seed %d: a chunk at line %d and byte %d, want %d and %d", seed, c.FirstLine, c.FirstByte, line, at)
				}
				for _, l := range c.Content.Value().Lines {
					recorded.WriteString(l.Text)
					if !l.Continued {
						recorded.WriteByte('\n')
						line++
					}
					at = int64(recorded.Len())
				}
			}
			got := recorded.String()
			if !strings.HasPrefix(all, got) || !totals.Truncated && got != all {
				t.Errorf("seed %d: %d bytes are recorded of %d, cut: %v", seed, len(got), len(all), totals.Truncated)
			}
		})
	}
}
