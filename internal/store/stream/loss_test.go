package stream_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/internal/store/stream"
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

// Lost heaps and texts are recorded once, although the acceptance of the damage is interrupted and
// continued, in events of their tenants.
func TestRecordLostBlobs(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	before := storetest.Open(t, server, jetstream.Options{})
	for range 3 {
		if _, err := before.Append(t.Context(), events.New("a", time.Now(), &events.HeapTagged{Heap: events.Hash(nil)}), ledger.AnyPosition); err != nil {
			t.Fatal(err)
		}
	}
	blob := func(tenant string, n int) events.LostBlob {
		return events.LostBlob{Tenant: tenant, Kind: "heap", SHA256: events.Hash([]byte(strconv.Itoa(n)))}
	}
	var list []events.LostBlob
	for n := range events.MaxLostBlobs + 1 {
		list = append(list, blob("a", n))
	}
	list = append(list, blob("b", 0))
	s := storetest.Open(t, server, jetstream.Options{Exclusive: true, Accept: &stream.AcceptedLoss{
		Lost: events.Lost{{From: 4, To: 9, NamedAt: 10}}, Volume: 2, First: 10,
	}})
	for _, known := range [][]events.LostBlob{list[:2], list, list} {
		if err := s.RecordLoss(t.Context(), &events.LedgerVolumeOpened{Lost: events.Lost{{From: 4, To: 9, NamedAt: 10}}}); err != nil {
			t.Fatal(err)
		}
		if err := s.RecordLostBlobs(t.Context(), known, events.Actor{Principal: "daybook"}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.Read(t.Context(), 9, 100)
	if err != nil {
		t.Fatal(err)
	}
	recorded := map[events.LostBlob]int{}
	for i, e := range got {
		d, ok := e.Data.(*events.BlobsLost)
		if ok != (i > 0) || e.Seq != uint64(10+i) {
			t.Fatalf("event %d is %s", e.Seq, e.Type)
		}
		if ok && (d.Volume != 2 || len(d.Blobs) > events.MaxLostBlobs) {
			t.Errorf("event %d of volume %d lists %d", e.Seq, d.Volume, len(d.Blobs))
		}
		if ok {
			for _, l := range d.Of(e.Tenant) {
				recorded[l]++
			}
		}
	}
	for _, l := range list {
		if recorded[l] != 1 {
			t.Errorf("%v is recorded %d times", l, recorded[l])
		}
	}
	if at, err := s.LostHeap(t.Context(), "b", list[0].SHA256); err != nil || at != got[len(got)-1].Seq {
		t.Errorf("a heap of b is lost at %d, %v", at, err)
	}
	if _, err := s.LostHeap(t.Context(), "b", list[1].SHA256); !errors.Is(err, events.ErrNotFound) {
		t.Errorf("a heap of another tenant is lost: %v", err)
	}
}
