package blobs_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
	"daybook/internal/store/blobs"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
)

// A small heap is one message, also if it is encrypted. A heap that is stored again is none.
// A larger one is chunks and metadata. All are read, described and verified alike.
func TestSmallBlobIsOneMessage(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	s := storetest.Open(t, server, jetstream.Options{CacheBytes: -1, Keys: oneKey(noise(32))})
	_, js := raw(t, server)
	base := noise(600 << 10)
	if err := s.SetBase(t.Context(), "e", base); err != nil {
		t.Fatal(err)
	}
	other := noise(20 << 10) // noise is always the same
	for i := range other {
		other[i] ^= 0x5a
	}
	for _, tt := range []struct {
		name      string
		blob      []byte
		encrypted bool
		messages  uint64
	}{
		{"small", append(bytes.Clone(base), "a change"...), false, 1},
		{"the same again", append(bytes.Clone(base), "a change"...), false, 0},
		{"small and encrypted", append(bytes.Clone(base), "a secret"...), true, 1},
		{"large", append(bytes.Clone(base), other...), false, 2},
		{"without bytes of the base", other[:100], false, 1},
	} {
		before := messages(t, js)
		var hash string
		var err error
		if tt.encrypted {
			hash, err = s.PutEncryptedHeap(t.Context(), tenant, tt.blob, "e", "key")
		} else {
			hash, err = s.PutHeap(t.Context(), tenant, tt.blob, "e")
		}
		if err != nil || hash != events.Hash(tt.blob) {
			t.Fatalf("%s: stored as %s, %v", tt.name, hash, err)
		}
		if n := messages(t, js) - before; n != tt.messages {
			t.Errorf("%s: %d messages, want %d", tt.name, n, tt.messages)
		}
		checkHeap(t, s, tt.name, tt.blob)
	}
}

// oneKey is the content key "key".
type oneKey []byte

func (k oneKey) ContentKey(id string) ([]byte, bool) { return k, id == "key" }

func messages(t *testing.T, js natsjs.JetStream) uint64 {
	t.Helper()
	stream, err := js.Stream(t.Context(), blobs.Stream)
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().State.LastSeq
}

// checkHeap reads a heap in each way.
func checkHeap(t *testing.T, s *jetstream.Store, name string, blob []byte) {
	t.Helper()
	hash := events.Hash(blob)
	if got, info, err := s.Heap(t.Context(), tenant, hash); err != nil || !bytes.Equal(got, blob) || info.EngineID != "e" {
		t.Errorf("%s: read %d bytes of engine %q, %v", name, len(got), info.EngineID, err)
	}
	if info, err := s.HeapInfo(t.Context(), tenant, hash); err != nil || info.Size != int64(len(blob)) {
		t.Errorf("%s: described as %+v, %v", name, info, err)
	}
	if _, err := s.VerifyHeap(t.Context(), tenant, hash); err != nil {
		t.Errorf("%s: verify: %v", name, err)
	}
	r, size, err := s.OpenBlob(t.Context(), tenant, true, hash)
	if err != nil {
		t.Fatalf("%s: open: %v", name, err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, blob) || size != int64(len(blob)) {
		t.Errorf("%s: %d of %d bytes in pieces, %v", name, len(got), size, err)
	}
}

// A small blob in chunks, as earlier versions stored them, is read like any other.
func TestSmallBlobInChunks(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, storetest.StartServer(t, t.TempDir()), jetstream.Options{CacheBytes: -1})
	blob := noise(1000)
	hash := put(t, s, tenant, blob)
	err := blobs.ReplacePacked(t.Context(), s.Store, tenant, hash, func(packed []byte, _ *natsjs.ObjectInfo) []byte { return packed })
	if err != nil {
		t.Fatal(err)
	}
	checkHeap(t, s, "in chunks", blob)
	if again := put(t, s, tenant, blob); again != hash {
		t.Errorf("stored again as %s", again)
	}
	if lost, err := s.FindLostBlobs(t.Context(), nil); lost != 0 || err != nil {
		t.Errorf("%d blobs are lost, %v", lost, err)
	}
}

// Nothing of a removed small blob stays in the blob store, nor an earlier copy of one that
// was pinned, and neither makes the store look damaged.
func TestPurgeSmallBlobs(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, storetest.StartServer(t, t.TempDir()), jetstream.Options{BlobGracePeriod: -1, CacheBytes: -1})
	removed, pinned := noise(1001), noise(1002)
	b, ok := listed(t, s, tenant, put(t, s, tenant, removed))
	if !ok {
		t.Fatal("not listed")
	}
	put(t, s, tenant, pinned)
	put(t, s, tenant, pinned) // without a grace period it is pinned each time
	if done, err := s.RemoveBlob(t.Context(), b); err != nil || !done {
		t.Fatalf("remove: %t, %v", done, err)
	}
	if n, err := s.PurgeOrphanChunks(t.Context()); n != 2 || err != nil {
		t.Errorf("%d messages purged, %v; want 2", n, err)
	}
	if n, err := s.PurgeOrphanChunks(t.Context()); n != 0 || err != nil {
		t.Errorf("%d messages purged again, %v", n, err)
	}
	if lacks, err := s.LacksBlobs(t.Context()); lacks || err != nil {
		t.Errorf("the store lacks blobs: %v, %v", lacks, err)
	}
	checkHeap(t, s, "pinned", pinned)
	if _, _, err := s.Heap(t.Context(), tenant, b.SHA256); !errors.Is(err, events.ErrRemoved) {
		t.Errorf("read the removed one: %v", err)
	}
	put(t, s, tenant, removed)
	checkHeap(t, s, "stored again", removed)
}
