package blobs_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
)

// listed returns a blob as the store lists it.
func listed(t *testing.T, s *jetstream.Store, of, hash string) (events.BlobInfo, bool) {
	t.Helper()
	var found events.BlobInfo
	var ok bool
	err := s.StoredBlobs(t.Context(), func(b events.BlobInfo) error {
		if b.Tenant == of && b.SHA256 == hash {
			found, ok = b, true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found, ok
}

func put(t *testing.T, s *jetstream.Store, of string, blob []byte) string {
	t.Helper()
	hash, err := s.PutHeap(t.Context(), of, blob, "e")
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

// Errors distinguish a removed heap, one that was never stored and a lost one. A removed
// heap can be stored again. The same heap of another tenant stays.
func TestRemoveHeap(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := storetest.StartServer(t, dir)
	s := storetest.Open(t, server, jetstream.Options{BlobGracePeriod: -1})
	empty := noise(chunk)
	if err := s.SetBase(t.Context(), "e", empty); err != nil {
		t.Fatal(err)
	}
	blob := append(bytes.Clone(empty), noise(2*chunk+1)...)
	hash := put(t, s, tenant, blob)
	put(t, s, "other", blob)
	b, ok := listed(t, s, tenant, hash)
	if !ok || !b.Heap || b.Size != int64(len(blob)) || time.Since(b.StoredAt) > time.Minute {
		t.Fatalf("listed as %+v, %t", b, ok)
	}
	if removed, err := s.RemoveBlob(t.Context(), b); err != nil || !removed {
		t.Fatalf("remove: %t, %v", removed, err)
	}
	gone := func(s *jetstream.Store, when string) {
		t.Helper()
		if _, _, err := s.Heap(t.Context(), tenant, hash); !errors.Is(err, events.ErrRemoved) {
			t.Errorf("%s: read: %v", when, err)
		}
		if _, err := s.HeapInfo(t.Context(), tenant, hash); !errors.Is(err, events.ErrRemoved) {
			t.Errorf("%s: described: %v", when, err)
		}
		if _, err := s.HeapInfo(t.Context(), tenant, events.Hash(nil)); !errors.Is(err, events.ErrNotFound) {
			t.Errorf("%s: a heap that was never stored: %v", when, err)
		}
		if got, _, err := s.Heap(t.Context(), "other", hash); err != nil || !bytes.Equal(got, blob) {
			t.Errorf("%s: the other tenant reads %d bytes, %v", when, len(got), err)
		}
		if _, ok := listed(t, s, tenant, hash); ok {
			t.Errorf("%s: it is still listed", when)
		}
	}
	gone(s, "removed")
	chunks, err := s.PurgeOrphanChunks(t.Context())
	if err != nil || chunks == 0 {
		t.Fatalf("reclaimed %d chunks, %v", chunks, err)
	}
	gone(s, "reclaimed")
	if again, err := s.PurgeOrphanChunks(t.Context()); err != nil || again != 0 {
		t.Errorf("reclaimed %d chunks again, %v", again, err)
	}
	server.Close()
	s = storetest.Open(t, storetest.StartServer(t, dir), jetstream.Options{BlobGracePeriod: -1})
	gone(s, "after a restart")

	if put(t, s, tenant, blob) != hash {
		t.Error("the same heap has another key")
	}
	s = storetest.Open(t, storetest.StartServer(t, t.TempDir()), jetstream.Options{})
	put(t, s, tenant, blob)
	b, _ = listed(t, s, tenant, hash)
	if removed, err := s.RemoveBlob(t.Context(), b); err != nil || removed {
		t.Errorf("a heap stored just now was removed: %t, %v", removed, err)
	}
}

// A blob that is stored again after it was listed for removal stays. A blob that is
// stored after its removal exists again.
func TestStoringAgainWins(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	opts := jetstream.Options{BlobGracePeriod: -1}
	collector, writer := storetest.Open(t, server, opts), storetest.Open(t, server, opts)
	blob := noise(100)
	hash := put(t, writer, tenant, blob)
	before, _ := listed(t, collector, tenant, hash)
	put(t, writer, tenant, blob) // a run left the same heap
	if removed, err := collector.RemoveBlob(t.Context(), before); err != nil || removed {
		t.Fatalf("a blob that was pinned meanwhile was removed: %t, %v", removed, err)
	}
	now, _ := listed(t, collector, tenant, hash)
	if now.Version == before.Version {
		t.Error("storing again did not pin the blob")
	}
	if removed, err := collector.RemoveBlob(t.Context(), now); err != nil || !removed {
		t.Fatalf("remove: %t, %v", removed, err)
	}
	// The writer still has it in its cache, and must not rely on that.
	put(t, writer, tenant, blob)
	fresh := storetest.Open(t, server, opts)
	if got, _, err := fresh.Heap(t.Context(), tenant, hash); err != nil || !bytes.Equal(got, blob) {
		t.Errorf("stored again: %d bytes, %v", len(got), err)
	}
}

// A heap that is removed and stored again during the reading is not damaged.
func TestReadingRemovedHeap(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	opts := jetstream.Options{BlobGracePeriod: -1, CacheBytes: -1}
	collector := storetest.Open(t, server, opts)
	opts.OnBlobDamaged = func(b events.LostBlob, err error) { t.Errorf("%+v: %v", b, err) }
	reader := storetest.Open(t, server, opts)
	blob := noise(3 * chunk)
	hash := put(t, collector, tenant, blob)
	removing, read := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(read)
		for {
			select {
			case <-removing:
				return
			default:
			}
			if got, _, err := reader.Heap(t.Context(), tenant, hash); err == nil && !bytes.Equal(got, blob) || err != nil && !errors.Is(err, events.ErrRemoved) {
				t.Errorf("%d bytes, %v", len(got), err)
				return
			}
			if _, err := reader.VerifyHeap(t.Context(), tenant, hash); errors.Is(err, events.ErrDamaged) {
				t.Errorf("in pieces: %v", err)
				return
			}
		}
	}()
	for range 8 {
		if b, ok := listed(t, collector, tenant, hash); ok {
			if _, err := collector.RemoveBlob(t.Context(), b); err != nil {
				t.Error(err)
			}
		}
		if _, err := collector.PurgeOrphanChunks(t.Context()); err != nil {
			t.Error(err)
		}
		put(t, collector, tenant, blob)
	}
	close(removing)
	<-read
}

// Chunks that belong to no blob are deleted. More missing chunks than were counted are
// damage.
func TestPurgeCounts(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	s := storetest.Open(t, server, jetstream.Options{BlobGracePeriod: -1, CacheBytes: -1})
	kept := put(t, s, tenant, noise(3*chunk))
	conn, js := raw(t, server)
	for range 5 { // of an unfinished upload
		if err := conn.Publish("$O.BLOBS.C.stray", []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "OBJ_BLOBS")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := s.PurgeOrphanChunks(t.Context()); err != nil || n != 5 {
		t.Fatalf("reclaimed %d chunks, %v", n, err)
	}
	if _, _, err := s.Heap(t.Context(), tenant, kept); err != nil {
		t.Error(err)
	}
	if _, err := s.HeapInfo(t.Context(), tenant, events.Hash(nil)); !errors.Is(err, events.ErrNotFound) {
		t.Errorf("a heap that was never stored: %v", err)
	}
	if err := stream.DeleteMsg(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if _, err := s.HeapInfo(t.Context(), tenant, events.Hash(nil)); !errors.Is(err, events.ErrDamaged) {
		t.Errorf("a message was lost, and a heap that may be lost: %v", err)
	}
}
