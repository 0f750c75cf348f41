package blobs

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// blobCodec compresses blobs, as such or as a delta against a base heap. It is safe for
// concurrent use. Encoders and decoders hold megabytes of tables, so they are reused.
// They start no goroutines, because only complete blobs are passed to them.
type blobCodec struct {
	base               string // hash of the base; empty for none
	baseHeap           []byte
	encoders, decoders sync.Pool
}

// plainCodec encodes blobs without a base.
var plainCodec = newBlobCodec("", nil)

// newBlobCodec returns a codec for a base heap. base MUST NOT be changed afterwards.
func newBlobCodec(hash string, base []byte) *blobCodec {
	// Matches reach back into the base by up to the window.
	const window = maxWindow
	enc := []zstd.EOption{zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(window)}
	dec := []zstd.DOption{zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxBlobBytes), zstd.WithDecodeAllCapLimit(true)}
	if len(base) > 0 {
		// The fastest level indexes too little of a base to find matches in it.
		enc = append(enc, zstd.WithEncoderLevel(zstd.SpeedDefault))
		// The id 0 means that the encoded blob names no dictionary.
		enc = append(enc, zstd.WithEncoderDictRaw(0, base))
		dec = append(dec, zstd.WithDecoderDictRaw(0, base))
	}
	p := &blobCodec{base: hash, baseHeap: base}
	p.encoders.New = func() any {
		e, err := zstd.NewWriter(nil, enc...)
		if err != nil {
			panic(err) // the options are constants
		}
		return e
	}
	p.decoders.New = func() any {
		d, err := zstd.NewReader(nil, dec...)
		if err != nil {
			panic(err) // the options are constants
		}
		return d
	}
	return p
}

func (p *blobCodec) compress(blob []byte) []byte {
	e := p.encoders.Get().(*zstd.Encoder)
	defer p.encoders.Put(e)
	return e.EncodeAll(blob, make([]byte, 0, len(blob)/8+64))
}

// encodeAsync starts compress on another goroutine. bytes of the result waits for it.
func (p *blobCodec) encodeAsync(blob []byte) encodedBlob {
	done := make(chan []byte, 1)
	go func() { done <- p.compress(blob) }()
	return encodedBlob{size: len(blob), base: p.base, bytes: sync.OnceValue(func() []byte { return <-done })}
}

// decompress returns exactly size bytes or an error. It never uses more memory than
// size, whatever the encoded bytes claim.
func (p *blobCodec) decompress(packed []byte, size int) ([]byte, error) {
	d := p.decoders.Get().(*zstd.Decoder)
	defer p.decoders.Put(d)
	blob, err := d.DecodeAll(packed, make([]byte, 0, size))
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return nil, fmt.Errorf("it holds more than the %d bytes in its metadata", size)
	case err != nil:
		return nil, fmt.Errorf("decompress: %w", err)
	case len(blob) != size:
		return nil, fmt.Errorf("it holds %d bytes, its metadata says %d", len(blob), size)
	}
	return blob, nil
}

// decodeStream returns a reader that decodes a blob in pieces. It holds at most window
// bytes; reading encoded bytes that need more fails.
func (p *blobCodec) decodeStream(packed io.Reader, window uint64) (*zstd.Decoder, error) {
	opts := []zstd.DOption{
		zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecodeBuffersBelow(0),
		zstd.WithDecoderMaxMemory(maxBlobBytes), zstd.WithDecoderMaxWindow(window),
	}
	if len(p.baseHeap) > 0 {
		opts = append(opts, zstd.WithDecoderDictRaw(0, p.baseHeap))
	}
	d, err := zstd.NewReader(packed, opts...)
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	return d, nil
}
