package jetstream

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Encoders and decoders hold megabytes of tables: they are used again. None of
// them starts goroutines, because only whole blobs are passed through.
var (
	encoders = sync.Pool{New: func() any {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
		if err != nil {
			panic(err) // the options are constants
		}
		return e
	}}
	decoders = sync.Pool{New: func() any {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxBlobBytes), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			panic(err) // the options are constants
		}
		return d
	}}
)

func compress(blob []byte) []byte {
	e := encoders.Get().(*zstd.Encoder)
	defer encoders.Put(e)
	return e.EncodeAll(blob, make([]byte, 0, len(blob)/3+64))
}

// decompress returns exactly size bytes or an error. It never takes more
// memory than size, whatever the packed bytes claim.
func decompress(packed []byte, size int) ([]byte, error) {
	d := decoders.Get().(*zstd.Decoder)
	defer decoders.Put(d)
	blob, err := d.DecodeAll(packed, make([]byte, 0, size))
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return nil, fmt.Errorf("it holds more than the %d bytes its description says", size)
	case err != nil:
		return nil, fmt.Errorf("decompress: %w", err)
	case len(blob) != size:
		return nil, fmt.Errorf("it holds %d bytes, its description says %d", len(blob), size)
	}
	return blob, nil
}

// digest is the checksum of an object as the object store writes it.
func digest(packed []byte) string {
	sum := sha256.Sum256(packed)
	return "SHA-256=" + base64.URLEncoding.EncodeToString(sum[:])
}
