package projections_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/projections"
)

// TestTenantsAreApart checks that the results for a tenant do not depend on the events
// of other tenants. All tenants use the same ids, heaps and session names.
func TestTenantsAreApart(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			h, all := newHistorian(seed+100), newMemoryLedger()
			for range 400 {
				who, d := h.move()
				all.addFor(who, d)
			}
			together := open(t, projections.Options{})
			apply(t, together, all)
			for _, who := range []string{tenant, "another"} {
				own := newMemoryLedger()
				for _, e := range all.all() {
					if e.Tenant == who {
						own.addFor(who, e.Data)
					} else { // keeps the positions
						own.addFor("nobody", &events.Unknown{Type: "x", StoredSubject: "s", Body: []byte("{}")})
					}
				}
				alone := open(t, projections.Options{})
				apply(t, alone, own)
				want := answers(t, alone, who)
				if diff := cmp.Diff(want, answers(t, together, who)); diff != "" {
					t.Errorf("%s: %s", who, diff)
				}
				if p, err := alone.Executions(t.Context(), who, projections.ExecutionFilter{}); err != nil || len(p.Executions) == 0 {
					t.Errorf("%s has no executions, error %v", who, err)
				}
			}
		})
	}
}

// TestEverythingIsReadableWhileEventsAreApplied repeats every query while events are
// applied. The results of one moment are consistent.
func TestEverythingIsReadableWhileEventsAreApplied(t *testing.T) {
	t.Parallel()
	b, s := mix(3000, 2, 5), open(t, projections.Options{})
	b.batch = 20
	last := uint64(len(b.all()))
	follow(t, s, b)
	ask := map[string]func() error{
		"everything": func() error { answers(t, s, tenant); return nil },
		"list": func() error {
			p, err := s.Executions(t.Context(), tenant, projections.ExecutionFilter{})
			if err != nil {
				return err
			}
			list := names(p)
			// Each run is accepted after the one before has ended.
			for i, e := range p.Executions {
				if want := events.StatusCompleted; i > 0 && e.Status != want || list[i] != len(list)-i && len(list) <= 1000 {
					return fmt.Errorf("place %d of %d: run %d is %s", i, len(list), list[i], e.Status)
				}
			}
			return nil
		},
		"tags": func() error {
			found, err := s.HeapsByTags(t.Context(), tenant, projections.TagQuery{Tags: tags{"stage": "3"}})
			for _, h := range found.Heaps {
				if h.Tags["stage"] != "3" {
					return fmt.Errorf("heap %s has the tags %v", h.Heap, h.Tags)
				}
			}
			return err
		},
		"heaps": func() error {
			p, err := s.Heaps(t.Context(), tenant, 50, "")
			if err != nil {
				return err
			}
			for _, h := range p.Heaps {
				if len(h.Tags) != 2 { // current from the event that left the heap
					return fmt.Errorf("heap %s has the tags %v", h.Heap, h.Tags)
				}
			}
			if len(p.Heaps) == 0 {
				return nil
			}
			line, err := s.Lineage(t.Context(), tenant, p.Heaps[0].Heap)
			if err == nil && (line[len(line)-1].Parent != nil || len(line) < len(p.Heaps)) {
				err = fmt.Errorf("a lineage of %d that ends with %+v", len(line), line[len(line)-1])
			}
			return err
		},
	}
	asked := make(chan error, len(ask))
	for name, f := range ask {
		go func() {
			for s.Applied() < last {
				if err := f(); err != nil {
					asked <- fmt.Errorf("%s: %w", name, err)
					return
				}
			}
			asked <- f()
		}()
	}
	for range ask {
		if err := <-asked; err != nil {
			t.Error(err)
		}
	}
	if err := s.Wait(t.Context(), last); err != nil {
		t.Error(err)
	}
	noAnomalies(t, s)
}

// TestManyLines reads 100,000 lines in both modes and continues from arbitrary offsets.
func TestManyLines(t *testing.T) {
	t.Parallel()
	const total = 100_000
	var text []byte
	begins := []int{0}
	for n := 1; n <= total; n++ {
		if n%10 != 0 { // every tenth line is empty
			text = fmt.Appendf(text, "%d wörld 世界😀", n)
		}
		text = append(text, '\n')
		begins = append(begins, len(text))
	}
	s := printed(t, string(text), events.OutputMaxBytes/8, ended(1, events.StatusCompleted))
	for name, q := range map[string]projections.OutputQuery{
		"lines": {LineLimit: 997}, "most lines": {LineLimit: projections.MaxLineLimit}, "bytes": {ByteOffset: ptr(int64(0)), ByteLimit: 40_961},
	} {
		var got []byte
		for pages := 0; ; pages++ {
			p, err := s.Output(t.Context(), tenant, id(1), q)
			if err != nil || pages > 1000 {
				t.Fatalf("%s: page %d, error %v", name, pages, err)
			}
			if p.StartByte != int64(len(got)) || p.TotalLines != total || p.TotalBytes != int64(len(text)) || len(p.Data) == 0 {
				t.Fatalf("%s: page at %d, want %d, of %d lines and %d bytes", name, p.StartByte, len(got), p.TotalLines, p.TotalBytes)
			}
			got = append(got, p.Data...)
			if q.LineOffset = p.NextLineOffset; q.ByteOffset != nil {
				q.ByteOffset = &p.NextByteOffset
			}
			if !p.HasMore {
				if p.NextLineOffset != total+1 || p.NextByteOffset != int64(len(text)) {
					t.Errorf("%s: continues at line %d, byte %d", name, p.NextLineOffset, p.NextByteOffset)
				}
				break
			}
		}
		if !slices.Equal(got, text) {
			t.Errorf("%s: %d bytes differ from the %d written", name, len(got), len(text))
		}
	}
	for n := 1; n <= total; n += 7919 {
		want := string(text[begins[n-1] : begins[n]-1])
		lines, status, err := s.Lines(t.Context(), tenant, id(1), int64(n), 1)
		if err != nil || status != events.StatusCompleted || len(lines) != 1 || lines[0].Line != int64(n) || lines[0].Text != want {
			t.Errorf("line %d: %+v, error %v", n, lines, err)
		}
		from := int64(begins[n] - 1)
		p, err := s.Output(t.Context(), tenant, id(1), projections.OutputQuery{ByteOffset: &from, ByteLimit: 1})
		if err != nil || p.Data != "\n" || p.StartLine != int64(n) || p.EndLine != int64(n) || p.NextLineOffset != int64(n)+1 {
			t.Errorf("the end of line %d: %+v, error %v", n, p, err)
		}
	}
}
