package stream_test

import (
	"errors"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/store/storetest"
	"daybook/ledger"
)

// The loss of a heap is at the event that lists it, and only for its tenant. An event
// that lists the maximum number of blobs covers the heaps that no event lists.
func TestLostHeap(t *testing.T) {
	t.Parallel()
	s := storetest.Start(t)
	heap := func(n byte) string { return events.Hash([]byte{n}) }
	record := func(list ...events.LostBlob) uint64 {
		t.Helper()
		d := &events.LedgerVolumeOpened{Volume: 2, Reason: events.VolumeDamaged, LostBlobs: list}
		seq, err := s.Append(t.Context(), events.New(events.LedgerTenant, time.Now(), d), ledger.AnyPosition)
		if err != nil {
			t.Fatal(err)
		}
		return seq
	}
	lost := func(tenant string, n byte, want uint64) {
		t.Helper()
		got, err := s.LostHeap(t.Context(), tenant, heap(n))
		if got != want || (want == 0) != errors.Is(err, events.ErrNotFound) {
			t.Errorf("heap %d of %s is lost at %d, %v; want %d", n, tenant, got, err, want)
		}
	}
	lost("a", 1, 0)
	first := record(events.LostBlob{Tenant: "a", Kind: "heap", SHA256: heap(1)}, events.LostBlob{Tenant: "a", Kind: "text", SHA256: heap(2)})
	second := record(events.LostBlob{Tenant: "a", Kind: "heap", SHA256: heap(3)})
	lost("a", 1, first)
	lost("a", 3, second)
	lost("a", 2, 0)
	lost("b", 1, 0)
	many := make([]events.LostBlob, events.MaxLostBlobs)
	for i := range many {
		many[i] = events.LostBlob{Tenant: "b", Kind: "heap", SHA256: heap(9)}
	}
	third := record(many...)
	lost("a", 1, first)
	lost("a", 2, third)
	lost("b", 9, third)
	again := record(events.LostBlob{Tenant: "a", Kind: "heap", SHA256: heap(1)})
	lost("a", 1, again)
}
