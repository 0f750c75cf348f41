package blobs

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
)

// Coders that are kept hold some megabytes, also after a blob that needs many. The test is not
// parallel, because it measures the memory of the process.
func TestKeptCodersAreSmall(t *testing.T) { //nolint:paralleltest // see above
	random := rand.NewChaCha8([32]byte{})
	base, large := make([]byte, 600<<10), make([]byte, 10<<20)
	_, _ = random.Read(base)
	_, _ = random.Read(large[len(large)/2:]) // half of it compresses
	heap := append(bytes.Clone(base), "a change"...)
	held := func() int64 {
		runtime.GC()
		runtime.GC() // what a sync.Pool holds survives one collection
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for name, base := range map[string][]byte{"with a base": base, "without a base": nil} {
		before := held()
		p := newBlobCodec("hash", base)
		for _, blob := range [][]byte{heap, large, heap[:100]} {
			packed := p.compress(blob)
			if back, err := p.decompress(packed, len(blob)); err != nil || !bytes.Equal(back, blob) {
				t.Fatalf("%s, %d bytes are decoded to %d bytes, %v", name, len(blob), len(back), err)
			}
		}
		if base != nil {
			if packed := p.compress(heap); len(packed) > 4<<10 {
				t.Errorf("%s, a small change takes %d bytes", name, len(packed))
			}
		}
		if grown := held() - before; grown > 8<<20 {
			t.Errorf("%s, a codec holds %d KiB", name, grown>>10)
		} else {
			t.Logf("%s, a codec holds %d KiB", name, grown>>10)
		}
		runtime.KeepAlive(p)
	}
	runtime.KeepAlive(large)
}

// The encoders and decoders of a codec are kept for the next blob, until they are dropped.
func TestDropCoders(t *testing.T) {
	t.Parallel()
	blob := make([]byte, 1<<20)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range blob {
		blob[i] = byte(random.IntN(16))
	}
	p := newBlobCodec("", nil)
	k := &baseHeaps{byHash: map[string]*blobCodec{"a": p}}
	for range 2 {
		got, err := p.decompress(p.compress(blob), len(blob))
		if err != nil || !bytes.Equal(got, blob) {
			t.Fatalf("another blob, error %v", err)
		}
		if len(p.encoders.kept) != 1 || len(p.decoders.kept) != 1 {
			t.Fatalf("%d encoders and %d decoders are kept, want 1 each", len(p.encoders.kept), len(p.decoders.kept))
		}
		k.expireCoders(time.Hour)
		if len(p.encoders.kept) != 1 || len(p.decoders.kept) != 1 {
			t.Fatal("a coder that was just used is dropped")
		}
		k.expireCoders(0)
		if n := len(p.encoders.kept) + len(p.decoders.kept); n != 0 {
			t.Fatalf("%d coders are left", n)
		}
	}
}
