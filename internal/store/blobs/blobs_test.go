package blobs_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"daybook/events"
	"daybook/internal/store/blobs"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
)

// chunk is the size of the messages of a blob, in bytes.
const chunk = 512 << 10

// noise returns n bytes that do not compress.
func noise(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(n)})
	_, _ = r.Read(b) // never fails
	return b
}

func TestBlobsOfAnySize(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, storetest.StartServer(t, t.TempDir()), jetstream.Options{CacheBytes: -1})
	for _, n := range []int{0, 1, chunk - 100, chunk, 5*chunk + 1} {
		blob := noise(n)
		hash, err := s.PutHeap(t.Context(), tenant, blob, "e")
		if err != nil {
			t.Fatal(err)
		}
		got, info, err := s.Heap(t.Context(), tenant, hash)
		if err != nil || !bytes.Equal(got, blob) || info != (events.HeapInfo{SHA256: hash, Size: int64(n), EngineID: "e"}) {
			t.Errorf("%d bytes: got %d, %+v, %v", n, len(got), info, err)
		}
		described, err := s.HeapInfo(t.Context(), tenant, hash)
		if err != nil || described != info {
			t.Errorf("%d bytes: described as %+v, %v", n, described, err)
		}
	}
	if _, err := s.HeapInfo(t.Context(), tenant, "../../x"); err == nil || errors.Is(err, events.ErrNotFound) {
		t.Errorf("a name that is no hash: %v", err)
	}
	if _, err := s.PutHeap(t.Context(), "a/b.c", []byte("x"), "e"); err == nil {
		t.Error("a tenant that is no token was accepted")
	}
}

// Several writers of one blob, in several processes, leave one blob that can be read at
// any time, also by NATS tools.
func TestManyWritersOfOneBlob(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	stores := []*jetstream.Store{
		storetest.Open(t, server, jetstream.Options{CacheBytes: -1}),
		storetest.Open(t, server, jetstream.Options{CacheBytes: -1}),
		storetest.Open(t, server, jetstream.Options{CacheBytes: -1}),
	}
	blob := noise(2*chunk + 5)
	want := events.Hash(blob)
	var writers sync.WaitGroup
	for i := range 12 {
		s := stores[i%len(stores)]
		writers.Go(func() {
			if hash, err := s.PutHeap(t.Context(), tenant, blob, "e"); err != nil || hash != want {
				t.Errorf("put: %s, %v", hash, err)
			}
			if got, _, err := s.Heap(t.Context(), tenant, want); err != nil || !bytes.Equal(got, blob) {
				t.Errorf("get: %d bytes, %v", len(got), err)
			}
		})
	}
	writers.Wait()
	// Writers that lost the race left no gap: an unknown heap is certainly unknown.
	if _, err := stores[0].HeapInfo(t.Context(), tenant, events.Hash(nil)); !errors.Is(err, events.ErrNotFound) {
		t.Errorf("an unknown heap: %v", err)
	}
	_, js := raw(t, server)
	objects, err := js.ObjectStore(t.Context(), "BLOBS")
	if err != nil {
		t.Fatal(err)
	}
	packed, err := objects.GetBytes(t.Context(), "heap/"+tenant+"/"+want)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := blobs.ReadPacked(t.Context(), stores[1].Store, tenant, want)
	if err != nil || !bytes.Equal(ours, packed) {
		t.Errorf("read as %d bytes here and %d there: %v", len(ours), len(packed), err)
	}
}
