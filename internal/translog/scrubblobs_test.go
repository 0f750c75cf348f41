package translog_test

import (
	"context"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/translog"
)

// damagedHeaps reads every heap as damaged.
type damagedHeaps struct{ *jetstream.Store }

func (damagedHeaps) VerifyHeap(_ context.Context, tenant, hash string) (events.HeapInfo, error) {
	return events.HeapInfo{}, &events.BlobDamagedError{Blob: events.LostBlob{Tenant: tenant, Kind: "heap", SHA256: hash}, Why: "test"}
}

// A damaged heap is reported as a heap and not as a damaged event.
func TestScrubReportsDamagedHeaps(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	log := start(t, store, translog.Options{Dir: t.TempDir()})
	heap := events.Hash([]byte("a heap"))
	id := events.NewID(time.Now())
	if _, err := store.Append(t.Context(), request(id), 0); err != nil {
		t.Fatal(err)
	}
	ended := events.New(events.DefaultTenant, time.Now(), &events.ExecutionFailed{Ending: events.Ending{ExecutionID: id, Attempt: 1, Heap: &events.HeapRecord{SHA256: heap}}})
	last, err := store.Append(t.Context(), ended, -1)
	if err != nil {
		t.Fatal(err)
	}
	mustCheckpoint(t, log, last)
	var found []events.LostBlob
	s := log.NewScrub(translog.ScrubOptions{
		Stream: store, Blobs: damagedHeaps{store}, EventsPerSecond: 1e6, BytesPerSecond: 1 << 30,
		Found:     func(first, last uint64, what string) { t.Errorf("found at %d to %d: %s", first, last, what) },
		FoundBlob: func(b events.LostBlob, _ error) { found = append(found, b) },
	})
	if err := s.RunPass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := (events.LostBlob{Tenant: events.DefaultTenant, Kind: "heap", SHA256: heap}); len(found) != 1 || found[0] != want || s.Progress().Findings != 1 {
		t.Errorf("found %+v, %+v", found, s.Progress())
	}
}
