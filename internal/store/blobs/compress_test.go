package blobs_test

import (
	"bytes"
	"testing"

	"daybook/internal/store/blobs"
)

func FuzzDecompress(f *testing.F) {
	f.Add(blobs.Compress([]byte("hello")), 5)
	f.Add(blobs.Compress(make([]byte, 1<<20)), 1<<20)
	f.Add([]byte{0x28, 0xb5, 0x2f, 0xfd}, 0)
	f.Fuzz(func(t *testing.T, packed []byte, size int) {
		if size < 0 || size > 1<<20 {
			return // refused before
		}
		blob, err := blobs.Decompress(packed, size)
		if err != nil {
			return
		}
		if len(blob) != size {
			t.Errorf("%d bytes, want %d", len(blob), size)
		}
		if again, err := blobs.Decompress(blobs.Compress(blob), size); err != nil || !bytes.Equal(again, blob) {
			t.Errorf("packing again: %v", err)
		}
	})
}
