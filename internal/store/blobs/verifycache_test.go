package blobs_test

import (
	"testing"

	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
)

// Verifying and exporting heaps does not change the cache.
func TestVerifyingBypassesTheCache(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	writer := storetest.Open(t, server, jetstream.Options{CacheBytes: -1})
	hash, err := writer.PutHeap(t.Context(), tenant, noise(64<<10), "e")
	if err != nil {
		t.Fatal(err)
	}
	var held int64
	s := storetest.Open(t, server, jetstream.Options{CacheBytes: 64 << 20, OnCacheSize: func(bytes int64) { held = bytes }})
	if info, err := s.VerifyHeap(t.Context(), tenant, hash); err != nil || info.Size != 64<<10 {
		t.Errorf("the heap is %+v, %v", info, err)
	}
	if heap, info, err := s.StoredHeap(t.Context(), tenant, hash); err != nil || info.SHA256 != hash || len(heap) != 64<<10 {
		t.Errorf("the stored heap has %d bytes, %+v, %v", len(heap), info, err)
	}
	if held != 0 {
		t.Errorf("the cache holds %d bytes after a verification", held)
	}
	if _, _, err := s.Heap(t.Context(), tenant, hash); err != nil || held == 0 {
		t.Errorf("the cache holds %d bytes after a read, %v", held, err)
	}
}
