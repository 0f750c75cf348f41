package projections_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
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
	s, b := open(t, projections.Options{}), newMemoryLedger()
	want := func(what string, w projections.Usage) {
		t.Helper()
		apply(t, s, b)
		w.Applied = s.Applied()
		if got := usage(t, s, tenant); got != w {
			t.Errorf("%s: got %+v, want %+v", what, got, w)
		}
	}
	want("no events", projections.Usage{})
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

// Objects that are kept permanently are counted once, and are known for each tenant.
func TestKeptUsage(t *testing.T) {
	t.Parallel()
	s, b := open(t, projections.Options{}), newMemoryLedger()
	connection, named := contextRef(events.ContextTransport, "c"), contextRef(events.ContextSession, "n")
	want := func(what string, sessions, contexts, heaps int64) {
		t.Helper()
		apply(t, s, b)
		if got := usage(t, s, tenant); got.Sessions != sessions || got.Contexts != contexts || got.TaggedHeaps != heaps {
			t.Errorf("%s: got %+v, want %d sessions, %d contexts and %d tagged heaps", what, got, sessions, contexts, heaps)
		}
	}
	has := func(what string, ask func(context.Context, string, string) (bool, error), key string, want bool) {
		t.Helper()
		for who, want := range map[string]bool{tenant: want, "other": false} {
			if got, err := ask(t.Context(), who, key); got != want || err != nil {
				t.Errorf("%s of tenant %s: %v, %v", what, who, got, err)
			}
		}
	}
	b.add(requested(1, inSession("notes"), inContext(connection)), requested(2, inSession("notes"), inContext(connection)), opened(1, "task"))
	want("a named and a logical session", 2, 1, 0)
	b.add(tagged(heap(1), tags{"a": "b"}, events.EditSet, 0), tagged(heap(1), tags{}, events.EditSet, 0), tagged(heap(2), tags{"a": "b"}, events.EditSet, 0))
	want("tags of two heaps", 2, 1, 2)
	b.add(started(1, 1, fresh, ""), ended(1, events.StatusCompleted, leaving(heap(2), "")), tagged(heap(2), tags{"c": "d"}, events.EditSet, 0))
	want("one of them was left by a run", 2, 1, 1)
	b.add(started(2, 1, fresh, ""), ended(2, events.StatusCompleted))
	b.add(&events.ContextExpired{ContextRef: connection, LastUse: events.Instant{Time: began}}, &events.ContextUpdated{ContextRef: named})
	want("a context of a connection has expired, one of a session is new", 2, 1, 1)
	b.add(&events.ContextExpired{ContextRef: connection, LastUse: events.Instant{Time: began}}, &events.ContextUpdated{ContextRef: connection}, &events.ContextExpired{ContextRef: named})
	want("the context of the connection exists again", 2, 2, 1)
	for _, holder := range []int{1, 2} { // of one session
		b.add(&events.SessionRefAssigned{Holder: heap(holder), Ref: "s0", SessionID: sessionID(1)})
	}
	want("short names do not count as sessions", 2, 2, 1)
	if got := usage(t, s, tenant); got.ShortNames != 2 {
		t.Errorf("%d short names, want that of each holder", got.ShortNames)
	}
	has("a name", s.HasSession, "notes", true)
	has("a name without runs", s.HasSession, "other", false)
	has("a context", s.HasContext, named.Key, true)
	has("an unknown context", s.HasContext, contextRef(events.ContextSession, "x").Key, false)
	has("a heap with tags", s.HasTaggedHeap, heap(1), true)
	has("a heap that a run left", s.HasTaggedHeap, heap(2), true)
	has("an unknown heap", s.HasTaggedHeap, heap(3), false)
	if most, err := s.LargestUsage(t.Context()); err != nil || most != usage(t, s, tenant) {
		t.Errorf("the largest usage: %+v, %v", most, err)
	}
}

// After a removal, the heaps whose runs were removed count as tagged heaps, even if the
// tenant has no other usage.
func TestTaggedHeapsAfterRemoval(t *testing.T) {
	t.Parallel()
	s, b := open(t, projections.Options{}), newMemoryLedger()
	b.add(requested(1), started(1, 1, fresh, ""), ended(1, events.StatusCompleted, leaving(heap(1), "")), &events.HeapCollected{Heap: heap(1)})
	apply(t, s, b)
	b.add(tagged(heap(1), tags{"a": "b"}, events.EditSet, 0))
	apply(t, s, b)
	want := projections.Usage{Applied: 5}
	if got := usage(t, s, tenant); got != want {
		t.Errorf("before: %+v, want %+v", got, want)
	}
	b.addFor(events.LedgerTenant, &events.LedgerVolumeRemoved{Volume: 1, First: 1, Last: 4, Actor: client})
	apply(t, s, b)
	want = projections.Usage{TaggedHeaps: 1, Applied: 6}
	if got := usage(t, s, tenant); got != want {
		t.Errorf("after: %+v, want %+v", got, want)
	}
	b.add(requested(2), started(2, 1, fresh, ""), ended(2, events.StatusCompleted, leaving(heap(1), "")))
	apply(t, s, b)
	if got := usage(t, s, tenant); got.TaggedHeaps != 0 {
		t.Errorf("after a run left it again: %+v", got)
	}
}

// TestTenantUsageIsTheSum compares the counts with the rows that they count, after
// random histories.
func TestTenantUsageIsTheSum(t *testing.T) {
	t.Parallel()
	var sum projections.Usage
	for seed := range uint64(20) {
		h, b := newHistorian(seed), newMemoryLedger()
		b.batch = 1 + int(seed)*7
		path := filepath.Join(t.TempDir(), "projections.db")
		s := open(t, projections.Options{Path: path})
		for range 400 {
			who, d := h.move()
			if h.IntN(8) == 0 { // contexts of transport sessions, which end, and of sessions
				kind := []events.ContextKind{events.ContextTransport, events.ContextSession}[h.IntN(2)]
				ref := contextRef(kind, fmt.Sprint(h.IntN(4)))
				n := 20 + h.IntN(4)
				sealed := sealedRun(n, "erased", "key", "1")
				sealed.Context = &ref
				d = []events.Data{
					&events.ContextUpdated{ContextRef: ref}, &events.ContextCleared{ContextRef: ref},
					&events.ContextExpired{ContextRef: ref, LastUse: events.Instant{Time: began}},
					requested(n, inContext(ref)), sealed, ended(n, events.StatusCompleted, leaving(heap(h.IntN(12)), "")),
					&events.SessionShredded{SessionID: events.SessionID(tenant, "erased"), Session: "erased", KeyIDs: []string{"key"}, Actor: client},
				}[h.IntN(7)]
			}
			b.addFor(who, d)
		}
		for list := b.all(); len(list) > 0; {
			n := min(b.batch, len(list))
			last := list[n-1]
			broken := append(slices.Clone(list[:n]), events.Event{Tenant: last.Tenant, Seq: last.Seq + 1, Time: last.Time})
			if err := s.Apply(t.Context(), broken); err == nil {
				t.Fatal("an event without data is applied")
			}
			if err := s.Apply(t.Context(), list[:n]); err != nil {
				t.Fatal(err)
			}
			list = list[n:]
			usage(t, s, tenant) // cached from now on; the other tenant's usage is not
		}
		for _, who := range []string{tenant, "another"} {
			var want projections.Usage
			err := openRaw(t, path).QueryRowContext(t.Context(), `SELECT
				(SELECT count(*) FROM executions WHERE tenant = ?1 AND status = 'running'),
				(SELECT coalesce(sum(length(text)), 0) FROM output o JOIN executions e ON e.id = o.execution WHERE e.tenant = ?1),
				(SELECT coalesce(sum(size), 0) FROM heaps WHERE tenant = ?1 AND collected_seq IS NULL AND lost_seq IS NULL),
				(SELECT count(*) FROM sessions WHERE tenant = ?1) + (SELECT count(*) FROM logical_sessions WHERE tenant = ?1),
				(SELECT count(*) FROM contexts WHERE tenant = ?1),
				(SELECT count(*) FROM tagged t WHERE tenant = ?1 AND heap NOT IN (SELECT heap FROM heaps WHERE tenant = ?1)),
				(SELECT applied FROM position)`, who).Scan(&want.Runs, &want.OutputBytes, &want.HeapBytes, &want.Sessions, &want.Contexts, &want.TaggedHeaps, &want.Applied)
			if err != nil {
				t.Fatal(err)
			}
			if got := usage(t, s, who); got != want {
				t.Errorf("seed %d, tenant %s: got %+v, the rows sum up to %+v", seed, who, got, want)
			}
			if want.Runs == 0 && want.OutputBytes == 0 || want.Sessions == 0 {
				t.Errorf("seed %d: the history is empty", seed)
			}
			sum.Contexts += want.Contexts
			sum.TaggedHeaps += want.TaggedHeaps
		}
	}
	if sum.Contexts == 0 || sum.TaggedHeaps == 0 {
		t.Errorf("the histories have no context, or no tagged heap that no run has left: %+v", sum)
	}
}

// While events are applied, a result is the usage at its position.
func TestTenantUsageWhileApplying(t *testing.T) {
	t.Parallel()
	const tenants, batch = 25, 3
	who := func(n int) string { return fmt.Sprint("t", n%tenants) }
	b := newMemoryLedger()
	for n := range 300 {
		if n%3 < 2 {
			b.addFor(who(n), requested(n, inContext(contextRef(events.ContextTransport, fmt.Sprint(n%7)))))
		} else {
			b.addFor(who(n), tagged(heap(n), tags{"a": "b"}, events.EditSet, 0))
		}
	}
	type at struct {
		tenant  string
		applied uint64
	}
	want := map[at]projections.Usage{}
	steps := func(s *projections.Store, then func()) {
		for list := b.all(); len(list) > 0; list = list[min(batch, len(list)):] {
			if err := s.Apply(t.Context(), list[:min(batch, len(list))]); err != nil {
				t.Fatal(err)
			}
			then()
		}
	}
	s := open(t, projections.Options{})
	steps(s, func() {
		for n := range tenants {
			u := usage(t, s, who(n))
			want[at{who(n), u.Applied}] = u
		}
	})
	again := open(t, projections.Options{})
	done := make(chan struct{})
	var reading sync.WaitGroup
	defer reading.Wait()
	defer close(done)
	for r := range 3 {
		reading.Go(func() {
			for n := r; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				u, err := again.TenantUsage(t.Context(), who(n))
				if err != nil {
					t.Error(err)
					return
				}
				if u.Applied > 0 && u != want[at{who(n), u.Applied}] {
					t.Errorf("tenant %s: %+v, want %+v", who(n), u, want[at{who(n), u.Applied}])
				}
				// If there are too many tenants, the cache is cleared and all are read
				// again.
				if _, err := again.TenantUsage(t.Context(), fmt.Sprint("another", r, n)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	steps(again, func() {})
}

// BenchmarkTenantUsage measures the read of the limits at each submission, while other
// tenants use as much.
func BenchmarkTenantUsage(b *testing.B) {
	s, book := open(b, projections.Options{}), newMemoryLedger()
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
