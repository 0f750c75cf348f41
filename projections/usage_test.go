package projections_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"daybook/events"
	"daybook/projections"
)

func usage(t testing.TB, s *projections.Store, tenant string) projections.Usage {
	t.Helper()
	u, err := s.TenantUsage(t.Context(), tenant)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestTenantUsage(t *testing.T) {
	t.Parallel()
	s, b := open(t, projections.Options{}), newBook()
	want := func(what string, w projections.Usage) {
		t.Helper()
		apply(t, s, b)
		w.Applied = s.Applied()
		if got := usage(t, s, tenant); got != w {
			t.Errorf("%s: got %+v, want %+v", what, got, w)
		}
	}
	want("nothing on record", projections.Usage{})
	b.add(requested(1), requested(2))
	b.addFor("other", requested(1))
	want("two requested", projections.Usage{Runs: 2})
	b.add(started(1, 1, fresh, ""))
	b.print(1, "one\ntwo\nth", 4)
	want("output", projections.Usage{Runs: 2, OutputBytes: 10})
	b.add(started(1, 2, events.Extent{Line: 3, Byte: 8}, ""))
	want("a second attempt that did not know of the last piece", projections.Usage{Runs: 2, OutputBytes: 8})
	b.add(ended(1, events.StatusCompleted, leaving(heap(1), "")))
	want("one ended", projections.Usage{Runs: 1, OutputBytes: 8, HeapBytes: 1 << 20})
	b.add(ended(1, events.StatusFailed))
	b.add(started(2, 1, fresh, heap(1)), ended(2, events.StatusFailed, leaving(heap(1), heap(1))))
	want("both ended, with an equal heap", projections.Usage{OutputBytes: 8, HeapBytes: 1 << 20})
	if got := usage(t, s, "other"); got.Runs != 1 || got.OutputBytes != 0 || got.HeapBytes != 0 {
		t.Errorf("the other tenant: %+v", got)
	}
	if n, err := s.UnfinishedRuns(t.Context()); err != nil || n != 1 {
		t.Errorf("%d runs of all tenants have not ended, want 1: %v", n, err)
	}
}

// TestTenantUsageIsTheSum compares the counts with the rows they sum up, after
// any history.
func TestTenantUsageIsTheSum(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		h, b := newHistorian(seed), newBook()
		b.batch = 1 + int(seed)*7
		path := filepath.Join(t.TempDir(), "projections.db")
		s := open(t, projections.Options{Path: path})
		for range 400 {
			who, d := h.move()
			b.addFor(who, d)
		}
		for list := b.all(); len(list) > 0; {
			n := min(b.batch, len(list))
			if err := s.Apply(t.Context(), list[:n]); err != nil {
				t.Fatal(err)
			}
			list = list[n:]
			usage(t, s, tenant) // from now on it is held in memory, the other tenant's is not
		}
		for _, who := range []string{tenant, "another"} {
			var want projections.Usage
			err := raw(t, path).QueryRowContext(t.Context(), `SELECT
				(SELECT count(*) FROM executions WHERE tenant = ?1 AND status = 'running'),
				(SELECT coalesce(sum(length(text)), 0) FROM output o JOIN executions e ON e.id = o.execution WHERE e.tenant = ?1),
				(SELECT coalesce(sum(size), 0) FROM heaps WHERE tenant = ?1 AND collected_seq IS NULL),
				(SELECT applied FROM position)`, who).Scan(&want.Runs, &want.OutputBytes, &want.HeapBytes, &want.Applied)
			if err != nil {
				t.Fatal(err)
			}
			if got := usage(t, s, who); got != want {
				t.Errorf("seed %d, tenant %s: got %+v, the rows sum up to %+v", seed, who, got, want)
			}
			if want.Runs == 0 && want.OutputBytes == 0 {
				t.Errorf("seed %d: the history is empty", seed)
			}
		}
	}
}

// BenchmarkTenantUsage measures what the limits read at each submission, while
// other tenants use as much.
func BenchmarkTenantUsage(b *testing.B) {
	s, book := open(b, projections.Options{}), newBook()
	for n := range 1000 {
		book.addFor(fmt.Sprint("t", n%100), requested(n))
	}
	if err := s.Apply(b.Context(), book.all()); err != nil {
		b.Fatal(err)
	}
	for n := 0; b.Loop(); n++ {
		if u, err := s.TenantUsage(b.Context(), fmt.Sprint("t", n%100)); err != nil || u.Runs != 10 {
			b.Fatal(u, err)
		}
	}
}
