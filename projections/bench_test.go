package projections_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/projections"
)

// mix returns at least n events of complete runs: requested, started, chunks of output,
// completed with a heap and tags, the tag edit, and a session entry.
func mix(n, chunks, lines int) *memoryLedger {
	b := newMemoryLedger()
	chunk := pieces(strings.Repeat("2026-11-21 a line of output of the usual length, more or less so\n", lines))
	list := make([]events.Data, 0, n+20)
	for i := 1; len(list) < n; i++ {
		input, session := "", fmt.Sprint("session ", i%50)
		if i > 1 {
			input = heap(i - 1)
		}
		given := tags{"project": fmt.Sprint(i % 100), "stage": fmt.Sprint(i % 7)}
		list = append(list, requested(i, inSession(session), withTags(given)), started(i, 1, fresh, input))
		x := events.Extent{Line: 1, Attempt: 1}
		for range chunks {
			d := output(i, 1, x, chunk...)
			x.Add(d)
			list = append(list, d)
		}
		end := uint64(len(list) + 1)
		list = append(list, ended(i, events.StatusCompleted, leaving(heap(i), input)), tagged(heap(i), given, events.EditRun, end),
			entry(i, session, int64((i-1)/50), events.StatusCompleted, input, heap(i)))
	}
	b.add(list...)
	return b
}

// shapes holds the amounts of output of the runs of a ledger.
var shapes = []struct {
	name          string
	chunks, lines int
}{
	{"a chunk of 64 lines", 1, 64},
	{"ten chunks of 8 lines", 10, 8},
}

func BenchmarkApply(b *testing.B) {
	for _, shape := range shapes {
		for _, size := range []int{1, 1000} {
			b.Run(fmt.Sprintf("%s/batch=%d", shape.name, size), func(b *testing.B) {
				s, list := open(b, projections.Options{}), mix(b.N, shape.chunks, shape.lines).all()[:b.N]
				b.ResetTimer()
				for len(list) > 0 {
					n := min(size, len(list))
					if err := s.Apply(b.Context(), list[:n]); err != nil {
						b.Fatal(err)
					}
					list = list[n:]
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
			})
		}
	}
}

// percentiles calls run b.N times and reports the median and the 99th percentile.
func percentiles(b *testing.B, ask func(i int) error) {
	b.Helper()
	took := make([]time.Duration, 0, b.N)
	b.ResetTimer()
	for i := range b.N {
		start := time.Now()
		if err := ask(i); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

func BenchmarkPage(b *testing.B) {
	const lines = 100_000
	s, l := open(b, projections.Options{}), newMemoryLedger()
	l.add(requested(1), started(1, 1, fresh, ""))
	var text strings.Builder
	for n := range lines {
		fmt.Fprintf(&text, "%06d a line of output of the usual length, with some ünïcödé 世界 in it, more or less\n", n)
	}
	l.print(1, text.String(), 8<<10)
	apply(b, s, l)
	size := int64(text.Len())
	b.Run("100 lines", func(b *testing.B) {
		percentiles(b, func(i int) error {
			p, err := s.Output(b.Context(), tenant, id(1), projections.OutputQuery{LineOffset: int64(i)*7919%(lines-100) + 1})
			if err == nil && p.EndLine-p.StartLine != 99 {
				err = errors.New("not 100 lines")
			}
			return err
		})
	})
	b.Run("4096 bytes", func(b *testing.B) {
		percentiles(b, func(i int) error {
			from := int64(i) * 104_729 % (size - 4096)
			p, err := s.Output(b.Context(), tenant, id(1), projections.OutputQuery{ByteOffset: &from})
			if err == nil && len(p.Data) < 4093 {
				err = errors.New("not 4096 bytes")
			}
			return err
		})
	})
	b.Run("500 lines to follow", func(b *testing.B) {
		percentiles(b, func(i int) error {
			_, _, err := s.Lines(b.Context(), tenant, id(1), int64(i)*7919%(lines-500)+1, 500)
			return err
		})
	})
}

// BenchmarkQueries measures queries of two pairs over 100,000 tagged heaps. The worst
// case are two pairs that no heap has together: each heap with the rarer one is read.
func BenchmarkQueries(b *testing.B) {
	const heaps = 100_000
	s, l := open(b, projections.Options{}), newMemoryLedger()
	list := make([]events.Data, 0, heaps)
	for n := range heaps {
		sum := sha256.Sum256(binary.BigEndian.AppendUint32(nil, uint32(n)))
		list = append(list, tagged(hex.EncodeToString(sum[:]), tags{"project": fmt.Sprint(n % 1000), "stage": fmt.Sprint(n % 7), "team": fmt.Sprint(n % 3), "owner": fmt.Sprint(n % 6)}, events.EditSet, 0))
	}
	l.add(list...)
	apply(b, s, l)
	for _, q := range []struct {
		name     string
		pairs    func(i int) tags
		limit    int
		min, max int
	}{
		{"one rare", func(i int) tags { return tags{"project": fmt.Sprint(i % 1000), "stage": fmt.Sprint(i % 7)} }, 0, 14, 15},
		{"both common, page of 100", func(i int) tags { return tags{"team": fmt.Sprint(i % 3), "stage": fmt.Sprint(i % 7)} }, 100, 100, 100},
		{"both common, never together", func(i int) tags { return tags{"team": fmt.Sprint(i % 3), "owner": fmt.Sprint((i + 1) % 3)} }, 100, 0, 0},
		{"both common, all 4,762", func(i int) tags { return tags{"team": fmt.Sprint(i % 3), "stage": fmt.Sprint(i % 7)} }, 0, heaps / 21, heaps/21 + 1},
	} {
		b.Run(q.name, func(b *testing.B) {
			percentiles(b, func(i int) error {
				found, err := s.HeapsByTags(b.Context(), tenant, projections.TagQuery{Tags: q.pairs(i), Limit: q.limit})
				if n := len(found.Heaps); err == nil && (n < q.min || n > q.max) {
					err = fmt.Errorf("%d heaps", n)
				}
				return err
			})
		})
	}
}

func BenchmarkExecutions(b *testing.B) {
	const runs = 100_000
	s, l := open(b, projections.Options{}), newMemoryLedger()
	list := make([]events.Data, 0, 3*runs)
	for n := 1; n <= runs; n++ {
		list = append(list, requested(n, inSession(fmt.Sprint("session ", n%1000))))
		switch {
		case n%1000 == 0: // not ended
		case n%50 == 0:
			list = append(list, ended(n, events.StatusFailed))
		default:
			list = append(list, ended(n, events.StatusCompleted, leaving(heap(n), "")), tagged(heap(n), tags{"project": fmt.Sprint(n % 1000), "team": fmt.Sprint(n % 3)}, events.EditSet, 0))
		}
	}
	l.add(list...)
	apply(b, s, l)
	for _, q := range []struct {
		name   string
		filter projections.ExecutionFilter
		want   int
	}{
		{"documented list", projections.ExecutionFilter{}, 1100},
		{"newest 20", projections.ExecutionFilter{Limit: 20}, 20},
		{"20 running", projections.ExecutionFilter{Limit: 20, Status: events.StatusRunning}, 20},
		{"20 failed", projections.ExecutionFilter{Limit: 20, Status: events.StatusFailed}, 20},
		{"20 of a session", projections.ExecutionFilter{Limit: 20, Session: "session 7"}, 20},
		{"20 with a common tag", projections.ExecutionFilter{Limit: 20, Tags: tags{"team": "1"}}, 20},
		{"20 with a rare tag", projections.ExecutionFilter{Limit: 20, Tags: tags{"project": "7"}}, 20},
		{"with two tags, one rare", projections.ExecutionFilter{Tags: tags{"project": "7", "team": "1"}}, 34},
		{"with a tag that no heap has", projections.ExecutionFilter{Limit: 20, Tags: tags{"project": "x"}}, 0},
	} {
		b.Run(q.name, func(b *testing.B) {
			percentiles(b, func(int) error {
				p, err := s.Executions(b.Context(), tenant, q.filter)
				if err == nil && len(p.Executions) != q.want {
					err = fmt.Errorf("%d executions", len(p.Executions))
				}
				return err
			})
		})
	}
	b.Run("one", func(b *testing.B) {
		percentiles(b, func(i int) error {
			_, err := s.Execution(b.Context(), tenant, id(i%runs+1))
			return err
		})
	})
}
