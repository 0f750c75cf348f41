package feed

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/resources/reads"
	"daybook/internal/store/storetest"
)

// appendRuns appends execution requests of a tenant and returns their positions.
func appendRuns(t *testing.T, log interface {
	Append(ctx context.Context, e events.Event, expected int64) (uint64, error)
}, tenant string, n int) (positions []uint64) {
	t.Helper()
	for range n {
		id := events.NewID(time.Now())
		seq, err := log.Append(t.Context(), events.New(tenant, time.Now(), &events.ExecutionRequested{ExecutionID: id, Pool: events.DefaultPool, Actor: events.Actor{Principal: "p"}}), 0)
		if err != nil {
			t.Fatal(err)
		}
		positions = append(positions, seq)
	}
	return positions
}

// Followers of two tenants get each event of their tenant once and in order, whenever
// they join. A follower that is behind the kept events must read stored ones. Nothing
// is kept after the last follower has left.
func TestLiveFeed(t *testing.T) {
	t.Parallel()
	store := storetest.Start(t)
	feed := NewEvents(store, nil)
	want := map[string][]uint64{}
	write := func(tenant string, n int) { want[tenant] = append(want[tenant], appendRuns(t, store, tenant, n)...) }
	collect := func(f *Follower, tenant string, after uint64, last uint64) error {
		var got []uint64
		start := after
		for after < last {
			list, end, changed, ok := f.Next(after)
			if !ok {
				return fmt.Errorf("a follower of %s at %d is sent to stored events up to %d", tenant, after, end)
			}
			for _, e := range list {
				if len(e.JSON) == 0 || e.Seq != fmt.Sprint(e.Event.Seq) {
					return fmt.Errorf("event %d is not encoded", e.Event.Seq)
				}
				got = append(got, e.Event.Seq)
			}
			after = end
			if len(list) > 0 || after >= last {
				continue
			}
			select {
			case <-changed:
			case <-time.After(30 * time.Second):
				return fmt.Errorf("a follower of %s gets nothing after %d", tenant, after)
			}
		}
		expected := slices.DeleteFunc(slices.Clone(want[tenant]), func(seq uint64) bool { return seq <= start })
		if !slices.Equal(got, expected) {
			return fmt.Errorf("a follower of %s gets %d, want %d", tenant, got, expected)
		}
		return nil
	}

	write("a", 1)
	first := feed.Join(t.Context(), "a", want["a"][0])
	early := feed.Join(t.Context(), "b", want["a"][0])
	write("a", 3)
	write("b", 3)
	write("a", 1)
	last := want["a"][len(want["a"])-1]
	ended := make(chan error, 2)
	go func() { ended <- collect(first, "a", want["a"][0], last) }()
	go func() { ended <- collect(early, "b", want["a"][0], want["b"][2]) }()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}

	// The feed keeps events of a tenant from its first follower on.
	if _, end, _, ok := feed.Join(t.Context(), "c", 0).Next(0); ok || end == 0 {
		t.Errorf("a late follower is not sent to stored events: %d, %t", end, ok)
	}
	late := feed.Join(t.Context(), "a", want["a"][0])
	if err := collect(late, "a", want["a"][0], last); err != nil {
		t.Error(err)
	}

	// Above the limit, the oldest events are removed.
	feed.mu.Lock()
	feed.limit = 2 * len(first.audience.kept[0].JSON)
	feed.mu.Unlock()
	write("a", 4)
	last = want["a"][len(want["a"])-1]
	for after := last - 4; after < last; {
		_, end, changed, ok := first.Next(after)
		if after = end; ok && end < last {
			<-changed
		}
	}
	if _, end, _, ok := late.Next(want["a"][0]); ok || end >= last || end < last-4 {
		t.Errorf("a follower that is behind is sent to %d, %t; the newest event is %d", end, ok, last)
	}

	feed.mu.Lock()
	all := feed.audiences["c"]
	feed.mu.Unlock()
	for _, f := range []*Follower{first, early, late, {feed, first.reading, all}} {
		f.Leave()
	}
	if feed.reading != nil || len(feed.audiences) != 0 || feed.size != 0 || len(feed.order) != 0 {
		t.Errorf("kept without followers: %d bytes, %d tenants", feed.size, len(feed.audiences))
	}
	// The next follower starts another reading.
	again := feed.Join(t.Context(), "b", last)
	defer again.Leave()
	write("b", 1)
	if err := collect(again, "b", last, want["b"][3]); err != nil {
		t.Error(err)
	}
}

// Forget drops the kept events of one tenant, and all pages. A follower that is behind reads
// stored events then, and another one gets new events.
func TestForget(t *testing.T) {
	t.Parallel()
	store := storetest.Start(t)
	feed := NewEvents(store, reads.New(reads.Options{}))
	list := appendRuns(t, store, "a", 3)
	follower := feed.Join(t.Context(), "a", 0)
	defer follower.Leave()
	for after := uint64(0); after < list[2]; {
		_, end, changed, ok := follower.Next(after)
		if !ok {
			t.Fatal("the follower is behind")
		}
		if after = end; after < list[2] {
			<-changed
		}
	}
	before, err := feed.Stored(t.Context(), "a", 0)
	if err != nil || len(before.Events) != 3 {
		t.Fatalf("%+v, %v", before, err)
	}
	feed.Forget("b")
	if kept, _, _, ok := follower.Next(0); !ok || len(kept) != 3 {
		t.Errorf("%d events are kept after those of another tenant are dropped", len(kept))
	}
	feed.Forget("a")
	if kept, end, _, ok := follower.Next(0); ok || len(kept) != 0 || end != list[2] || feed.size != 0 || len(feed.order) != 0 {
		t.Errorf("%d events of %d bytes are kept; a follower that is behind is sent to %d, want %d", len(kept), feed.size, end, list[2])
	}
	if again, err := feed.Stored(t.Context(), "a", 0); err != nil || len(again.Events) != 3 || again.Events[0] == before.Events[0] {
		t.Errorf("the page is not read again: %v", err)
	}
	next := appendRuns(t, store, "a", 1)
	for {
		kept, _, changed, ok := follower.Next(list[2])
		if !ok {
			t.Fatal("the follower is behind")
		}
		if len(kept) == 1 && kept[0].Event.Seq == next[0] {
			break
		}
		<-changed
	}
}

// A page is loaded once for the callers that ask for it at the same time.
func TestSharedPages(t *testing.T) {
	t.Parallel()
	var pages sharedPages[int, string]
	loading, loads := make(chan struct{}), 0
	got := make(chan string)
	for range 4 {
		go func() {
			page, _ := pages.get(t.Context(), 1, func() (string, error) {
				<-loading
				loads++
				return "page", nil
			})
			got <- page
		}()
	}
	close(loading)
	for range 4 {
		if page := <-got; page != "page" {
			t.Errorf("got %q", page)
		}
	}
	if loads != 1 {
		t.Errorf("the page was loaded %d times", loads)
	}
	for range 2 {
		if _, err := pages.get(t.Context(), 2, func() (string, error) { loads++; return "", ErrNothingStored }); err == nil {
			t.Error("the error is lost")
		}
	}
	if loads != 3 {
		t.Errorf("a load that failed is shared: %d loads", loads)
	}
}

// If a load panics, the callers that wait for the page load it themselves.
func TestLoadPanics(t *testing.T) {
	t.Parallel()
	var pages sharedPages[int, string]
	loading, ended := make(chan struct{}), make(chan any)
	go func() {
		defer func() { ended <- recover() }()
		_, _ = pages.get(t.Context(), 1, func() (string, error) {
			close(loading)
			panic("a broken page")
		})
	}()
	<-loading
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	if page, err := pages.get(ctx, 1, func() (string, error) { return "page", nil }); page != "page" || err != nil {
		t.Errorf("got %q, %v", page, err)
	}
	if v := <-ended; v != "a broken page" {
		t.Errorf("the panic is %v", v)
	}
}

// Events are removed once followers have had time to read them. A follower that is
// behind reads stored events, and one at the end gets new ones.
func TestLiveFeedExpires(t *testing.T) {
	t.Parallel()
	store := storetest.Start(t)
	feed := NewEvents(store, nil)
	feed.keep = time.Millisecond
	begin := appendRuns(t, store, "a", 1)[0]
	w := feed.Join(t.Context(), "a", begin)
	defer w.Leave()
	for range 3 {
		written := appendRuns(t, store, "a", 5)
		last := written[len(written)-1]
		for deadline := time.Now().Add(30 * time.Second); ; {
			list, end, changed, ok := w.Next(begin)
			if !ok && end == last {
				break // the feed keeps none of the events
			}
			if ok && len(list) == 0 {
				<-changed
			}
			if time.Now().After(deadline) {
				t.Fatalf("events up to %d are kept: %d from %d on, %v", last, len(list), begin, ok)
			}
		}
		if list, end, _, ok := w.Next(last); !ok || len(list) > 0 || end != last {
			t.Errorf("a follower at the end gets %d events, %d, %v", len(list), end, ok)
		}
		feed.mu.Lock()
		if feed.size != 0 || len(feed.order) != 0 || cap(feed.order) != 0 {
			t.Errorf("%d bytes of %d events are kept, of %d at most", feed.size, len(feed.order), cap(feed.order))
		}
		feed.mu.Unlock()
	}
}

// An opening of an earlier version lists lost content of all tenants. Each tenant reads its own
// only, live and stored.
func TestOpeningsShowOwnLostContentOnly(t *testing.T) {
	t.Parallel()
	store := storetest.Start(t)
	feed := NewEvents(store, nil)
	appendRuns(t, store, "a", 1)
	follower := feed.Join(t.Context(), "a", 1)
	defer follower.Leave()
	d := &events.LedgerVolumeOpened{Volume: 2, Reason: events.VolumeDamaged, Note: "heap hash-b of tenant b", LostBlobs: []events.LostBlob{
		{Tenant: "a", Kind: "heap", SHA256: "hash-a"}, {Tenant: "b", Kind: "heap", SHA256: "hash-b"},
	}}
	if _, err := store.Append(t.Context(), events.New(events.LedgerTenant, time.Now(), d), -1); err != nil {
		t.Fatal(err)
	}
	check := func(how string, e *Event) {
		t.Helper()
		if err := e.Encode(); err != nil || !bytes.Contains(e.JSON, []byte("hash-a")) || bytes.Contains(e.JSON, []byte("hash-b")) {
			t.Errorf("%s: %v, %s", how, err, e.JSON)
		}
	}
	for {
		list, _, changed, ok := follower.Next(1)
		if !ok {
			t.Fatal("the follower is sent to stored events")
		}
		if len(list) > 0 {
			check("live", list[0])
			break
		}
		select {
		case <-changed:
		case <-t.Context().Done():
			t.Fatal("the follower gets nothing")
		}
	}
	page, err := feed.Stored(t.Context(), "a", 1)
	if err != nil || len(page.Events) != 1 {
		t.Fatalf("%d events, %v", len(page.Events), err)
	}
	check("stored", page.Events[0])
}
