package blobs_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"testing"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
	"daybook/internal/store/blobs"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
)

// grown returns base with text inserted in its middle.
func grown(base []byte, text string) []byte {
	return slices.Concat(base[:len(base)/2], []byte(text), base[len(base)/2:])
}

func TestHeapsAreEncodedAgainstTheirBase(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	s := storetest.Open(t, server, jetstream.Options{CacheBytes: -1})
	base := noise(500_000)
	before := grown(base, "stored before there was a base")
	after := grown(base, "stored afterwards")
	foreign := grown(base, "of another engine")

	put := func(blob []byte, engine string) (hash string, packed int) {
		t.Helper()
		hash, err := s.PutHeap(t.Context(), tenant, blob, engine)
		if err != nil {
			t.Fatal(err)
		}
		stored, err := blobs.ReadPacked(t.Context(), s.Store, tenant, hash)
		if err != nil {
			t.Fatal(err)
		}
		return hash, len(stored)
	}
	hash1, size1 := put(before, "e")
	if err := s.SetBase(t.Context(), "e", base); err != nil {
		t.Fatal(err)
	}
	hash2, size2 := put(after, "e")
	hash3, size3 := put(foreign, "another")
	if size1 < len(base) || size3 < len(base) {
		t.Errorf("noise became smaller: %d and %d bytes", size1, size3)
	}
	if size2 > 1000 {
		t.Errorf("a heap with %d bytes of its own took %d", len(after)-len(base), size2)
	}

	// Another process, which has no base set, or sets the same one.
	other := storetest.Open(t, server, jetstream.Options{CacheBytes: -1})
	again := storetest.Open(t, server, jetstream.Options{CacheBytes: -1})
	if err := again.SetBase(t.Context(), "e", base); err != nil {
		t.Fatal(err)
	}
	for _, reader := range []*jetstream.Store{s, other, again} {
		for hash, want := range map[string][]byte{hash1: before, hash2: after, hash3: foreign} {
			got, info, err := reader.Heap(t.Context(), tenant, hash)
			if err != nil || !bytes.Equal(got, want) || info.Size != int64(len(want)) {
				t.Errorf("heap %s: %d bytes, %+v, %v", hash, len(got), info, err)
			}
		}
	}
}

// A heap whose base is missing, or is not a base, is damaged, unless the process has
// the base already: a base is identified by its hash.
func TestHeapsWithoutTheirBase(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	s := storetest.Open(t, server, jetstream.Options{CacheBytes: -1})
	base := noise(100_000)
	heap := grown(base, "and more")
	if err := s.SetBase(t.Context(), "e", base); err != nil {
		t.Fatal(err)
	}
	hash, err := s.PutHeap(t.Context(), tenant, heap, "e")
	if err != nil {
		t.Fatal(err)
	}
	_, js := raw(t, server)
	name := "base/" + events.Hash(base)
	describe := func(meta string) {
		t.Helper()
		entry := fmt.Sprintf(`{"name":%q,"bucket":"BLOBS","nuid":"none","size":1,"chunks":1,"metadata":%s}`, name, meta)
		subject := "$O.BLOBS.M." + base64.URLEncoding.EncodeToString([]byte(name))
		if _, err := js.Publish(t.Context(), subject, []byte(entry)); err != nil {
			t.Fatal(err)
		}
	}
	for _, meta := range []string{
		`{"codec":"zstd","size":"100000"}`, // its chunks do not exist
		fmt.Sprintf(`{"codec":"zstd","size":"100000","base":%q}`, events.Hash(base)),
		`{"codec":"zstd","size":"100000","base":"none"}`,
	} {
		describe(meta)
		ignorant := storetest.Open(t, server, jetstream.Options{CacheBytes: -1})
		if _, _, err := ignorant.Heap(t.Context(), tenant, hash); !errors.Is(err, events.ErrDamaged) {
			t.Errorf("the base described as %s: %v", meta, err)
		}
		if got, _, err := s.Heap(t.Context(), tenant, hash); err != nil || !bytes.Equal(got, heap) {
			t.Errorf("a process with the base read %d bytes, %v", len(got), err)
		}
	}
	objects, err := js.ObjectStore(t.Context(), "BLOBS")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := objects.GetInfo(t.Context(), "heap/"+tenant+"/"+hash); err != nil || errors.Is(err, natsjs.ErrObjectNotFound) {
		t.Errorf("the NATS client finds no metadata: %v", err)
	}
}
