package projections_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/projections"
)

// ledgerModel computes lists and tags as the documentation describes them: it keeps all
// events and searches them for each result.
type ledgerModel struct {
	runs  []*modelRun // in the order of acceptance
	edits []modelEdit // in the order of the ledger
}

type modelRun struct {
	n       int
	seq     uint64
	status  events.Status
	session string
	given   tags // nil: none
	output  string
}

// modelEdit makes tags current on a heap from a position on.
type modelEdit struct {
	heap      string
	effective uint64
	tags      tags
}

func (m *ledgerModel) run(n int) *modelRun {
	i := slices.IndexFunc(m.runs, func(r *modelRun) bool { return r.n == n })
	return m.runs[i]
}

func (m *ledgerModel) apply(seq uint64, n int, d events.Data) {
	switch d := d.(type) {
	case *events.ExecutionRequested:
		m.runs = append(m.runs, &modelRun{n: n, seq: seq, status: events.StatusRunning, session: d.Session, given: d.Content.Value().Tags})
	case *events.HeapTagged:
		effective := d.AppliesAt
		if effective == 0 {
			effective = seq
		}
		m.edits = append(m.edits, modelEdit{d.Heap, effective, d.Content.Value().Tags})
	default:
		status, terminal := events.TypeOf(d).Status()
		if !terminal {
			return
		}
		r := m.run(n)
		r.status = status
		if h := events.EndingOf(d).Heap; h != nil {
			r.output = h.SHA256
			if status == events.StatusCompleted && r.given != nil {
				m.edits = append(m.edits, modelEdit{r.output, seq, r.given})
			}
		}
	}
}

// tags returns the tags of the edit that is current from the latest position. Of two
// edits from the same position, the later one counts.
func (m *ledgerModel) tags(heap string) tags {
	in := modelEdit{tags: tags{}}
	for _, e := range m.edits {
		if e.heap == heap && e.effective >= in.effective {
			in = e
		}
	}
	if in.tags == nil {
		return tags{}
	}
	return in.tags
}

// taggedHeap is a heap as a query by tags returns it.
type taggedHeap struct {
	Heap string
	Tags tags
}

func carries(have, want tags) bool {
	for k, v := range want {
		if got, ok := have[k]; !ok || got != v {
			return false
		}
	}
	return true
}

func (m *ledgerModel) heapsByTags(want tags) []taggedHeap {
	names := map[string]bool{}
	for _, e := range m.edits {
		names[e.heap] = true
	}
	list := []taggedHeap{}
	for _, h := range slices.Sorted(maps.Keys(names)) {
		if have := m.tags(h); len(have) > 0 && carries(have, want) {
			list = append(list, taggedHeap{h, have})
		}
	}
	return list
}

// executions returns the numbers of all runs that a filter selects, newest first.
func (m *ledgerModel) executions(f projections.ExecutionFilter) (list []int) {
	for _, r := range slices.Backward(m.runs) {
		if f.Status != "" && r.status != f.Status || f.Session != "" && r.session != f.Session {
			continue
		}
		if len(f.Tags) > 0 && (r.output == "" || !carries(m.tags(r.output), f.Tags)) {
			continue
		}
		list = append(list, r.n)
	}
	return list
}

// TestListsAndTagsAreThoseOfTheLedger compares lists and tags with the model at many
// moments of random histories, some of them with tags that many heaps carry.
func TestListsAndTagsAreThoseOfTheLedger(t *testing.T) {
	t.Parallel()
	for seed, size := range []int{40, 40, 40, 1600} { // number of heaps: few are shared by many runs, many make tags common
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(uint64(seed), 3))
			b, s, m := newMemoryLedger(), open(t, projections.Options{}), &ledgerModel{}
			var open []int
			record := func(n int, d events.Data) uint64 {
				seq := b.add(d)
				m.apply(seq, n, d)
				return seq
			}
			given := func() tags {
				switch rnd.IntN(8) {
				case 0:
					return nil
				case 1:
					return tags{}
				default:
					return tags{"a": fmt.Sprint(rnd.IntN(2)), "b": fmt.Sprint(rnd.IntN(3)), "rare": fmt.Sprint(rnd.IntN(50))}
				}
			}
			if size > 1000 {
				for n := range size {
					record(0, tagged(heap(n), tags{"a": "0", "b": fmt.Sprint(n % 3)}, events.EditSet, 0))
				}
			}
			for n := 1; n <= 400; n++ {
				session := []string{"", "s", "t"}[rnd.IntN(3)]
				record(n, requested(n, withTags(given()), func(d *events.ExecutionRequested) {
					if session != "" {
						inSession(session)(d)
					}
				}))
				open = append(open, n)
				for len(open) > 0 && rnd.IntN(10) < 6 {
					i := rnd.IntN(len(open))
					ending := open[i]
					open = slices.Delete(open, i, i+1)
					status := []events.Status{events.StatusCompleted, events.StatusCompleted, events.StatusFailed, events.StatusCancelled}[rnd.IntN(4)]
					var edit []func(*events.Ending)
					if rnd.IntN(5) > 0 {
						edit = append(edit, leaving(heap(rnd.IntN(size)), ""))
					}
					d := ended(ending, status, edit...)
					seq := record(ending, d)
					r := m.run(ending)
					if r.output != "" && rnd.IntN(3) == 0 { // a client edits the tags before the run's own edit
						record(0, tagged(r.output, given(), events.EditSet, 0))
					}
					if status == events.StatusCompleted && r.output != "" && r.given != nil {
						record(0, tagged(r.output, r.given, events.EditRun, seq))
					}
				}
				if rnd.IntN(5) == 0 {
					record(0, tagged(heap(rnd.IntN(size)), given(), events.EditSet, 0))
				}
				if n%20 == 0 {
					apply(t, s, b)
					compareLists(t, s, m, rnd)
				}
			}
			noAnomalies(t, s)
		})
	}
}

func compareLists(t *testing.T, s *projections.Store, m *ledgerModel, rnd *rand.Rand) {
	t.Helper()
	for range 3 {
		h := heap(rnd.IntN(40))
		got, err := s.HeapTags(t.Context(), tenant, h)
		if d := cmp.Diff(m.tags(h), got); d != "" || err != nil {
			t.Fatalf("tags of %.4s: %s, error %v", h[60:], d, err)
		}
	}
	queries := []tags{{}, {"a": "1"}, {"a": "0"}, {"a": fmt.Sprint(rnd.IntN(2)), "b": fmt.Sprint(rnd.IntN(3))}, {"a": "0", "b": "1", "rare": fmt.Sprint(rnd.IntN(50))}, {"a": "9"}}
	for _, q := range queries {
		got, err := findHeaps(t, s, q, rnd.IntN(4))
		if d := cmp.Diff(m.heapsByTags(q), got); d != "" || err != nil {
			t.Fatalf("heaps by %v: %s, error %v", q, d, err)
		}
	}
	for range 10 {
		f := projections.ExecutionFilter{Limit: []int{0, 1, 3, 50}[rnd.IntN(4)]}
		if rnd.IntN(2) == 0 {
			f.Status = []events.Status{events.StatusRunning, events.StatusCompleted, events.StatusFailed, events.StatusTimedOut}[rnd.IntN(4)]
		}
		if rnd.IntN(2) == 0 {
			f.Session = []string{"s", "t", "nowhere"}[rnd.IntN(3)]
		}
		if rnd.IntN(2) == 0 {
			f.Tags = queries[rnd.IntN(len(queries))]
		}
		if d := cmp.Diff(m.executions(f), walk(t, s, f)); d != "" {
			t.Fatalf("executions by %+v: %s", f, d)
		}
	}
}

// walk reads every page of a list.
func walk(t *testing.T, s *projections.Store, f projections.ExecutionFilter) (list []int) {
	t.Helper()
	for {
		p, err := s.Executions(t.Context(), tenant, f)
		if err != nil {
			t.Fatal(err)
		}
		if f.Limit > 0 && len(p.Executions) > f.Limit || len(p.Executions) == 0 && f.Cursor != "" {
			t.Fatalf("a page of %d with limit %d", len(p.Executions), f.Limit)
		}
		if list = append(list, names(p)...); p.NextCursor == "" {
			return list
		}
		if len(list) > 10_000 {
			t.Fatal("the pages have no end")
		}
		f.Cursor = p.NextCursor
	}
}
