package blobs_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
	"daybook/internal/store/blobs"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
)

// Every kind of damage to the files of a heap leads to ErrDamaged, and never to other
// bytes or to ErrNotFound, after which a run would start from a fresh isolate.
func TestDamagedHeaps(t *testing.T) {
	t.Parallel()
	big := make([]byte, 3*chunk+100)
	for i := range big {
		big[i] = byte(i * i >> 7)
	}
	for name, damage := range map[string]func(t *testing.T, dir, hash string){
		"description": func(t *testing.T, dir, _ string) { flip(t, dir, "OBJ_BLOBS", `"codec":"zstd"`) },
		"bytes":       func(t *testing.T, dir, _ string) { flip(t, dir, "OBJ_BLOBS", "\x28\xb5\x2f\xfd") },
		"lost": func(t *testing.T, dir, _ string) {
			for _, b := range blocks(t, dir, "OBJ_BLOBS") {
				if err := os.Remove(b); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			server := storetest.StartServer(t, dir)
			s := storetest.Open(t, server, jetstream.Options{})
			hash, err := s.PutHeap(t.Context(), tenant, big, "e")
			if err != nil {
				t.Fatal(err)
			}
			server.Close()
			damage(t, dir, hash)
			lost := events.LostBlob{Tenant: tenant, Kind: "heap", SHA256: hash}
			var damaged, repaired []events.LostBlob
			server = storetest.StartServer(t, dir)
			s = storetest.Open(t, server, jetstream.Options{
				OnDamage:       func(err error) { t.Errorf("reported of the ledger: %v", err) },
				OnBlobDamaged:  func(b events.LostBlob, _ error) { damaged = append(damaged, b) },
				OnBlobRepaired: func(b events.LostBlob, _ string) { repaired = append(repaired, b) },
			})
			if blob, _, err := s.Heap(t.Context(), tenant, hash); !errors.Is(err, events.ErrDamaged) || errors.Is(err, events.ErrNotFound) {
				t.Errorf("%d bytes, %v; want damage", len(blob), err)
			}
			if len(damaged) == 0 || s.Health(t.Context()) != nil {
				t.Errorf("reported %+v, health %v", damaged, s.Health(t.Context()))
			}
			// The index of the server may count messages that it cannot read, so possibly
			// only the reader finds the damage.
			if n, err := s.FindLostBlobs(t.Context(), []events.LostBlob{lost}); err != nil || n > 1 || !slices.Contains(damaged, lost) {
				t.Errorf("%d lost blobs, %v, reported %+v", n, err, damaged)
			}
			// Now the damage is recorded, and a heap that was never stored is known as such.
			_, err = s.HeapInfo(t.Context(), tenant, hash)
			if e, ok := errors.AsType[*events.BlobDamagedError](err); !ok || e.Blob != lost || e.Why == "" {
				t.Errorf("its description: %v", err)
			}
			if _, _, err := s.Heap(t.Context(), tenant, events.Hash(nil)); !errors.Is(err, events.ErrNotFound) {
				t.Errorf("a heap that was never stored: %v", err)
			}
			if lacks, err := s.LacksBlobs(t.Context()); err != nil || lacks {
				t.Errorf("messages are still missing: %t, %v", lacks, err)
			}
			// It is listed, and can be stored again.
			if err := s.StoredBlobs(t.Context(), func(events.BlobInfo) error { return nil }); err != nil {
				t.Errorf("list: %v", err)
			}
			if _, err := s.PutHeap(t.Context(), tenant, big, "e"); err != nil {
				t.Fatal(err)
			}
			if _, err := s.HeapInfo(t.Context(), tenant, hash); err != nil || len(repaired) != 1 || repaired[0] != lost {
				t.Errorf("stored again: %v, reported %+v", err, repaired)
			}
			server.Close()
			s = storetest.Open(t, storetest.StartServer(t, dir), jetstream.Options{})
			if blob, _, err := s.Heap(t.Context(), tenant, hash); err != nil || events.Hash(blob) != hash {
				t.Errorf("after another start: %d bytes, %v", len(blob), err)
			}
		})
	}
}

// A lost heap that another process stores again while lost ones are looked for is not reported.
func TestLostHeapIsStoredAgain(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, storetest.StartServer(t, t.TempDir()), jetstream.Options{})
	blob := []byte("a heap")
	list := []events.LostBlob{{Tenant: tenant, Kind: "heap", SHA256: events.Hash(blob)}}
	if n, err := s.FindLostBlobs(t.Context(), list); err != nil || n != 1 {
		t.Fatalf("%d lost heaps, %v", n, err)
	}
	for _, again := range []bool{false, true} {
		n, err := blobs.ListDamaged(t.Context(), s.Store, func() {
			if again {
				put(t, s, tenant, blob)
			}
		})
		if is := n == 1; err != nil || is == again {
			t.Errorf("%d damaged heaps, %v; stored again: %t", n, err, again)
		}
	}
}

// Wrong metadata is detected without being trusted.
func TestWrongMetadata(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	s := storetest.Open(t, server, jetstream.Options{CacheBytes: -1})
	_, js := raw(t, server)
	blob := []byte(strings.Repeat("x", 1<<20))
	packed := string(blobs.Compress(blob))
	for name, c := range map[string]struct{ codec, size, body string }{
		"smaller than declared": {"zstd", "2097152", packed},
		"larger than declared":  {"zstd", "10", packed},
		"beyond the limits":     {"zstd", "999999999999", packed},
		"not compressed":        {"zstd", "1048576", "plain"},
		"another blob":          {"zstd", "4", string(blobs.Compress([]byte("evil")))},
		"empty":                 {"zstd", "0", ""},
		"negative":              {"zstd", "-1", packed},
		"of unknown encoding":   {"lzma", "1048576", packed},
	} {
		hash := events.Hash([]byte(name))
		describe(t, js, "heap/"+tenant+"/"+hash, map[string]string{"codec": c.codec, "size": c.size}, c.body)
		got, _, err := s.Heap(t.Context(), tenant, hash)
		if err == nil || errors.Is(err, events.ErrNotFound) {
			t.Errorf("%s: %d bytes, %v; want an error", name, len(got), err)
		}
		if c.codec == "zstd" && !errors.Is(err, events.ErrDamaged) {
			t.Errorf("%s: %v, want damage", name, err)
		}
	}
}

// describe puts an object with arbitrary metadata into the bucket.
func describe(t *testing.T, js natsjs.JetStream, name string, meta map[string]string, body string) {
	t.Helper()
	info := natsjs.ObjectInfo{ObjectMeta: natsjs.ObjectMeta{Name: name, Metadata: meta}, Bucket: "BLOBS", NUID: events.Hash([]byte(name)), Size: uint64(len(body))}
	if body != "" {
		info.Chunks = 1
		if _, err := js.Publish(t.Context(), "$O.BLOBS.C."+info.NUID, []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	entry, err := json.Marshal(info)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "$O.BLOBS.M."+base64.URLEncoding.EncodeToString([]byte(name)), entry); err != nil {
		t.Fatal(err)
	}
}
