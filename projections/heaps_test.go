package projections_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/projections"
)

type tags = map[string]string

// findHeaps reads every page of a query by tags.
func findHeaps(t *testing.T, s *projections.Store, want tags, limit int) ([]taggedHeap, error) {
	t.Helper()
	list := []taggedHeap{}
	for q := (projections.TagQuery{Tags: want, Limit: limit}); ; {
		page, err := s.HeapsByTags(t.Context(), tenant, q)
		if err != nil {
			return nil, err
		}
		if limit > 0 && len(page.Heaps) > limit || page.NextCursor != "" && len(page.Heaps) < limit {
			t.Errorf("a page of %d, limit %d", len(page.Heaps), limit)
		}
		for _, h := range page.Heaps {
			list = append(list, taggedHeap{h.Heap, h.Tags})
		}
		if page.NextCursor == "" {
			return list, nil
		}
		q.Cursor = page.NextCursor
	}
}

// wantTags checks both queries for the tags of a heap.
func wantTags(t *testing.T, s *projections.Store, hash string, want tags) {
	t.Helper()
	got, err := s.HeapTags(t.Context(), tenant, hash)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tags of %.8s: %s", hash[56:], diff)
	}
	all, err := findHeaps(t, s, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var found tags
	for _, h := range all {
		if h.Heap == hash {
			found = h.Tags
		}
	}
	if len(want) == 0 {
		want = nil
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("among all tagged heaps, %.8s: %s", hash[56:], diff)
	}
}

// TestTagsOfARun checks that the tags of a run are current from its completed event on, for
// any events between it and the edit that repeats the tags.
func TestTagsOfARun(t *testing.T) {
	t.Parallel()
	run := func(b *memoryLedger, n int, given tags, status events.Status) (end uint64) {
		b.add(requested(n, withTags(given)), started(n, 1, fresh, ""))
		return b.add(ended(n, status, leaving(heap(1), "")))
	}
	edit := func(given tags, from uint64) *events.HeapTagged {
		d := tagged(heap(1), given, events.EditRun, from)
		d.ExecutionID = id(1)
		return d
	}
	t.Run("from the end on", func(t *testing.T) {
		t.Parallel()
		b, s := newMemoryLedger(), open(t, projections.Options{})
		end := run(b, 1, tags{"a": "1"}, events.StatusCompleted)
		apply(t, s, b)
		wantTags(t, s, heap(1), tags{"a": "1"})
		b.add(edit(tags{"a": "1"}, end))
		apply(t, s, b)
		wantTags(t, s, heap(1), tags{"a": "1"})
	})
	t.Run("an edit between the two is newer", func(t *testing.T) {
		t.Parallel()
		b, s := newMemoryLedger(), open(t, projections.Options{})
		end := run(b, 1, tags{"a": "1"}, events.StatusCompleted)
		b.add(tagged(heap(1), tags{"b": "2"}, events.EditSet, 0), edit(tags{"a": "1"}, end))
		apply(t, s, b)
		wantTags(t, s, heap(1), tags{"b": "2"})
	})
	t.Run("omitted tags change nothing, empty ones clear", func(t *testing.T) {
		t.Parallel()
		b, s := newMemoryLedger(), open(t, projections.Options{})
		b.add(tagged(heap(1), tags{"b": "2"}, events.EditSet, 0))
		run(b, 1, nil, events.StatusCompleted)
		apply(t, s, b)
		wantTags(t, s, heap(1), tags{"b": "2"})
		run(b, 2, tags{}, events.StatusCompleted)
		apply(t, s, b)
		wantTags(t, s, heap(1), tags{})
	})
	t.Run("not of a run that did not complete", func(t *testing.T) {
		t.Parallel()
		b, s := newMemoryLedger(), open(t, projections.Options{})
		run(b, 1, tags{"a": "1"}, events.StatusFailed)
		apply(t, s, b)
		wantTags(t, s, heap(1), tags{})
	})
	t.Run("of runs that overtake each other, the one that ended last", func(t *testing.T) {
		t.Parallel()
		b, s := newMemoryLedger(), open(t, projections.Options{})
		first := run(b, 1, tags{"a": "1"}, events.StatusCompleted)
		second := run(b, 2, tags{"a": "2"}, events.StatusCompleted)
		b.add(edit(tags{"a": "2"}, second), edit(tags{"a": "1"}, first))
		apply(t, s, b)
		wantTags(t, s, heap(1), tags{"a": "2"})
	})
}

func TestTagHistory(t *testing.T) {
	t.Parallel()
	b, s := newMemoryLedger(), open(t, projections.Options{})
	wantTags(t, s, heap(1), tags{})
	run := tagged(heap(1), tags{"a": "1"}, events.EditRun, 1)
	run.ExecutionID = id(7)
	b.add(tagged(heap(1), tags{"b": "2", "a": "é世"}, events.EditSet, 0), run, tagged(heap(1), nil, events.EditDelete, 0), tagged(heap(2), tags{"x": "y"}, events.EditSet, 0))
	b.addFor("another", tagged(heap(1), tags{"not": "ours"}, events.EditSet, 0))
	apply(t, s, b)
	wantTags(t, s, heap(1), tags{})
	got, err := s.TagHistory(t.Context(), tenant, heap(1), 3, "")
	want := []projections.TagEdit{
		{Seq: 1, Edit: events.EditSet, Tags: tags{"b": "2", "a": "é世"}, Actor: client, Time: at(1)},
		{Seq: 2, Edit: events.EditRun, Tags: tags{"a": "1"}, Actor: client, ExecutionID: ptr(id(7)), Time: at(2)},
		{Seq: 3, Edit: events.EditDelete, Tags: tags{}, Actor: client, Time: at(3)},
	}
	if diff := cmp.Diff(projections.TagEditPage{Edits: want}, got); diff != "" || err != nil {
		t.Errorf("%s, error %v", diff, err)
	}
	if none, err := s.TagHistory(t.Context(), tenant, heap(9), 3, ""); err != nil || none.Edits == nil || len(none.Edits) != 0 {
		t.Errorf("history of an unknown heap: %v, error %v", none, err)
	}
	first, err := s.TagHistory(t.Context(), tenant, heap(1), 2, "")
	if diff := cmp.Diff(want[:2], first.Edits); diff != "" || err != nil || first.NextCursor == "" {
		t.Errorf("the first page: %s, cursor %q, error %v", diff, first.NextCursor, err)
	}
	rest, err := s.TagHistory(t.Context(), tenant, heap(1), 2, first.NextCursor)
	if diff := cmp.Diff(projections.TagEditPage{Edits: want[2:]}, rest); diff != "" || err != nil {
		t.Errorf("the second page: %s, error %v", diff, err)
	}
	heaps, err := s.Heaps(t.Context(), tenant, 1, "")
	for _, q := range []struct {
		limit  int
		cursor string
	}{{0, ""}, {1001, ""}, {1, "nonsense"}, {1, heaps.NextCursor + "x"}} {
		if _, e := s.TagHistory(t.Context(), tenant, heap(1), q.limit, q.cursor); !errors.Is(e, projections.ErrBadQuery) || err != nil {
			t.Errorf("limit %d, cursor %q: %v, %v", q.limit, q.cursor, e, err)
		}
	}
}

func TestHeapsByTags(t *testing.T) {
	t.Parallel()
	b, s := newMemoryLedger(), open(t, projections.Options{})
	for n := range 30 {
		given := tags{"parity": fmt.Sprint(n % 2), "third": fmt.Sprint(n % 3)}
		if n == 0 {
			given[""], given["'; DROP TABLE heaps; --"] = "", "世"
		}
		b.add(tagged(heap(29-n), given, events.EditSet, 0))
	}
	b.addFor("another", tagged(heap(1), tags{"parity": "0"}, events.EditSet, 0))
	apply(t, s, b)
	number := func(h string) (n int) { _, _ = fmt.Sscanf(h, "%x", &n); return n }
	for name, tt := range map[string]struct {
		query tags
		match func(n int) bool // of the number in the loop above
	}{
		"none":          {tags{}, func(int) bool { return true }},
		"one":           {tags{"parity": "1"}, func(n int) bool { return n%2 == 1 }},
		"two":           {tags{"parity": "1", "third": "0"}, func(n int) bool { return n%6 == 3 }},
		"unknown value": {tags{"parity": "1", "third": "3"}, func(int) bool { return false }},
		"unknown key":   {tags{"parity": "1", "x": "0"}, func(int) bool { return false }},
		"value prefix":  {tags{"parity": ""}, func(int) bool { return false }},
		"odd text":      {tags{"": "", "'; DROP TABLE heaps; --": "世"}, func(n int) bool { return n == 0 }},
	} {
		got, err := findHeaps(t, s, tt.query, 0)
		if err != nil {
			t.Errorf("%s: %v, error %v", name, got, err)
		}
		want := []int{}
		for n := 29; n >= 0; n-- {
			if tt.match(n) {
				want = append(want, 29-n)
			}
		}
		found := []int{}
		for _, h := range got {
			found = append(found, number(h.Heap))
			if h.Tags["parity"] != fmt.Sprint((29-number(h.Heap))%2) {
				t.Errorf("%s: %v", name, h)
			}
		}
		if diff := cmp.Diff(want, found); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestHeapsByManyTags queries for as many tags as a heap can have.
func TestHeapsByManyTags(t *testing.T) {
	t.Parallel()
	b, s := newMemoryLedger(), open(t, projections.Options{})
	all := tags{}
	for n := range 64 {
		all[fmt.Sprintf("k%02d", n)] = "v"
	}
	b.add(tagged(heap(1), all, events.EditSet, 0))
	other := maps.Clone(all)
	other["k63"] = "w"
	b.add(tagged(heap(2), other, events.EditSet, 0))
	b.add(tagged(heap(3), tags{"k00": "v"}, events.EditSet, 0))
	apply(t, s, b)
	for _, n := range []int{1, 31, 32, 33, 34, 63, 64} {
		query := tags{}
		for i := range n {
			query[fmt.Sprintf("k%02d", 63-i)] = "v" // the first pair that differs
		}
		got, err := findHeaps(t, s, query, 1)
		if err != nil || len(got) != 1 || got[0].Heap != heap(1) {
			t.Errorf("%d tags: %v, error %v", n, got, err)
		}
		query["k63"] = "w"
		if got, err = findHeaps(t, s, query, 1); err != nil || len(got) != 1 || got[0].Heap != heap(2) {
			t.Errorf("%d tags of the other: %v, error %v", n, got, err)
		}
	}
	all["one more"] = "v"
	if _, err := findHeaps(t, s, all, 0); !errors.Is(err, projections.ErrBadQuery) {
		t.Errorf("65 tags: %v", err)
	}
}

// grow records run n, which leaves heap to and starts from heap from (0: none).
func grow(b *memoryLedger, n, to, from int) (end uint64) {
	input := ""
	if from > 0 {
		input = heap(from)
	}
	b.add(requested(n), started(n, 1, fresh, input))
	return b.add(ended(n, events.StatusCompleted, leaving(heap(to), input)))
}

func TestHeapsAndTheirOrigins(t *testing.T) {
	t.Parallel()
	b, s := newMemoryLedger(), open(t, projections.Options{})
	first := grow(b, 1, 11, 0)
	second := grow(b, 2, 12, 11)
	third := grow(b, 3, 13, 12)
	grow(b, 4, 12, 11) // the same heap again
	b.add(tagged(heap(12), tags{"k": "v"}, events.EditSet, 0))
	b.addFor("another", requested(9), ended(9, events.StatusCompleted, leaving(heap(99), heap(13))))
	apply(t, s, b)

	h, err := s.Heap(t.Context(), tenant, heap(12))
	want := projections.Heap{
		Heap: heap(12), Tags: tags{"k": "v"}, Size: ptr(int64(1 << 20)), EngineID: ptr("engine"), CreatedAt: ptr(at(second)), Parent: ptr(heap(11)), ExecutionID: ptr(id(2)),
	}
	if diff := cmp.Diff(want, h); diff != "" || err != nil {
		t.Errorf("%s, error %v", diff, err)
	}
	line, err := s.Lineage(t.Context(), tenant, heap(13))
	origins := []projections.HeapOrigin{
		{Heap: heap(13), ExecutionID: id(3), Parent: ptr(heap(12)), CreatedAt: at(third)},
		{Heap: heap(12), ExecutionID: id(2), Parent: ptr(heap(11)), CreatedAt: at(second)},
		{Heap: heap(11), ExecutionID: id(1), CreatedAt: at(first)},
	}
	if diff := cmp.Diff(origins, line); diff != "" || err != nil {
		t.Errorf("%s, error %v", diff, err)
	}
	for _, unknown := range []string{heap(99), heap(98)} {
		for name, ask := range map[string]func() error{
			"Heap":    func() error { _, err := s.Heap(t.Context(), tenant, unknown); return err },
			"Lineage": func() error { _, err := s.Lineage(t.Context(), tenant, unknown); return err },
		} {
			if err := ask(); !errors.Is(err, events.ErrNotFound) {
				t.Errorf("%s of an unknown heap: %v", name, err)
			}
		}
	}

	var walked []string
	for cursor := ""; ; {
		p, err := s.Heaps(t.Context(), tenant, 2, cursor)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range p.Heaps {
			walked = append(walked, h.Heap)
		}
		if cursor = p.NextCursor; cursor == "" {
			break
		}
	}
	if diff := cmp.Diff([]string{heap(13), heap(12), heap(11)}, walked); diff != "" {
		t.Error(diff)
	}
}

// A heap that an accepted loss names is listed with the position of that event, for the
// tenant of the heap, until a run leaves the heap again.
func TestLostHeaps(t *testing.T) {
	t.Parallel()
	b, s := newMemoryLedger(), open(t, projections.Options{})
	grow(b, 1, 11, 0)
	grow(b, 2, 12, 11)
	b.add(tagged(heap(12), tags{"k": "v"}, events.EditSet, 0))
	b.addFor("another", requested(9), ended(9, events.StatusCompleted, leaving(heap(12), "")))
	loss := func(blobs ...events.LostBlob) uint64 {
		return b.addFor(events.LedgerTenant, &events.LedgerVolumeOpened{Volume: 2, Reason: events.VolumeDamaged, LostBlobs: blobs})
	}
	loss(events.LostBlob{Tenant: tenant, Kind: "text", SHA256: heap(11)}, events.LostBlob{Tenant: tenant, Kind: "heap", SHA256: heap(77)})
	lost := loss(events.LostBlob{Tenant: tenant, Kind: "heap", SHA256: heap(12)})
	loss(events.LostBlob{Tenant: tenant, Kind: "heap", SHA256: heap(12)}) // a lost heap is not lost a second time
	apply(t, s, b)

	marks := func(who string) map[string]*uint64 {
		t.Helper()
		all := map[string]*uint64{}
		page, err := s.Heaps(t.Context(), who, 10, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range page.Heaps {
			all[h.Heap] = h.Lost
			if one, err := s.Heap(t.Context(), who, h.Heap); err != nil || !cmp.Equal(one.Lost, h.Lost) {
				t.Errorf("heap %s is lost at %v in the list, and at %v alone, error %v", h.Heap, h.Lost, one.Lost, err)
			}
		}
		return all
	}
	if diff := cmp.Diff(map[string]*uint64{heap(11): nil, heap(12): &lost}, marks(tenant)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]*uint64{heap(12): nil}, marks("another")); diff != "" {
		t.Errorf("another tenant: %s", diff)
	}
	for _, query := range []tags{{"k": "v"}, {}} {
		found, err := s.HeapsByTags(t.Context(), tenant, projections.TagQuery{Tags: query})
		if err != nil || len(found.Heaps) != 1 || !cmp.Equal(found.Heaps[0].Lost, &lost) {
			t.Errorf("found by %v: %+v, error %v", query, found, err)
		}
	}
	if u, other := usage(t, s, tenant), usage(t, s, "another"); u.HeapBytes != 1<<20 || other.HeapBytes != 1<<20 {
		t.Errorf("%d and %d bytes of heaps count, want those of one each", u.HeapBytes, other.HeapBytes)
	}

	grow(b, 3, 12, 11)
	apply(t, s, b)
	if diff := cmp.Diff(map[string]*uint64{heap(11): nil, heap(12): nil}, marks(tenant)); diff != "" {
		t.Errorf("after it was left again: %s", diff)
	}
	if u := usage(t, s, tenant); u.HeapBytes != 2<<20 {
		t.Errorf("after it was left again %d bytes of heaps count", u.HeapBytes)
	}
	loss(events.LostBlob{Tenant: tenant, Kind: "heap", SHA256: heap(12)})
	b.add(&events.HeapCollected{Heap: heap(12)})
	apply(t, s, b)
	if u := usage(t, s, tenant); u.HeapBytes != 1<<20 {
		t.Errorf("after it was lost and collected %d bytes of heaps count", u.HeapBytes)
	}
}

// TestLineageEnds checks that a lineage is finite if it leads back to itself or to a heap
// that no known run left, and that a very long one is limited.
func TestLineageEnds(t *testing.T) {
	t.Parallel()
	b, s := newMemoryLedger(), open(t, projections.Options{})
	grow(b, 1, 1, 2)
	grow(b, 2, 2, 1)
	grow(b, 3, 3, 3)
	grow(b, 4, 4, 404)
	const long = 10_005
	for n := 1000; n < 1000+long; n++ {
		grow(b, n, n, n-1)
	}
	apply(t, s, b)
	for of, want := range map[int]int{1: 2, 3: 1, 4: 1, 999 + long: 10_000} {
		line, err := s.Lineage(t.Context(), tenant, heap(of))
		if err != nil || len(line) != want {
			t.Errorf("the lineage of %d has %d steps, want %d, error %v", of, len(line), want, err)
		}
	}
}

// TestTagsFromAFuturePosition checks that an edit is current from its own position on
// at the latest; otherwise no later edit would change the tags.
func TestTagsFromAFuturePosition(t *testing.T) {
	t.Parallel()
	b, s := newMemoryLedger(), open(t, projections.Options{})
	b.add(tagged(heap(1), tags{"a": "1"}, events.EditRun, 1000))
	apply(t, s, b)
	wantTags(t, s, heap(1), tags{"a": "1"})
	b.add(tagged(heap(1), tags{"a": "2"}, events.EditSet, 0))
	apply(t, s, b)
	wantTags(t, s, heap(1), tags{"a": "2"})
	list, want := broken(t, s), []note{{1, "tags of heap " + heap(1) + " apply from position 1000 on, which is after the event"}}
	if !slices.Equal(list, want) {
		t.Errorf("anomalies %v", list)
	}
}

// A collected heap is reported as collected, is in no list and is not counted, until a
// run leaves it again. Its tags and its lineage can still be read.
func TestCollectedHeap(t *testing.T) {
	t.Parallel()
	s, b := open(t, projections.Options{}), newMemoryLedger()
	b.add(requested(1), started(1, 1, fresh, ""), ended(1, events.StatusCompleted, leaving(heap(1), "")))
	b.add(requested(2), started(2, 1, fresh, heap(1)), ended(2, events.StatusCompleted, leaving(heap(2), heap(1))))
	seq := b.add(&events.HeapCollected{Heap: heap(1)})
	b.add(&events.HeapCollected{Heap: heap(3)}) // a heap that no known run left
	apply(t, s, b)
	var removed *events.RemovedError
	if _, err := s.Heap(t.Context(), tenant, heap(1)); !errors.As(err, &removed) || removed.Seq != seq || events.FormatTime(removed.At) != at(seq) {
		t.Errorf("read: %v", err)
	}
	if page, err := s.Heaps(t.Context(), tenant, 10, ""); err != nil || len(page.Heaps) != 1 || page.Heaps[0].Heap != heap(2) {
		t.Errorf("listed: %+v, %v", page, err)
	}
	if line, err := s.Lineage(t.Context(), tenant, heap(2)); err != nil || len(line) != 2 {
		t.Errorf("lineage: %+v, %v", line, err)
	}
	if got := usage(t, s, tenant).HeapBytes; got != 1<<20 {
		t.Errorf("%d bytes of heaps", got)
	}
	b.add(requested(3), started(3, 1, fresh, ""), ended(3, events.StatusCompleted, leaving(heap(1), "")))
	apply(t, s, b)
	if _, err := s.Heap(t.Context(), tenant, heap(1)); err != nil {
		t.Errorf("left again: %v", err)
	}
	if got := usage(t, s, tenant).HeapBytes; got != 2<<20 {
		t.Errorf("%d bytes of heaps", got)
	}
	noAnomalies(t, s)
}
