package blobs

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// blobCodec compresses blobs, by itself or as what they differ from a base. It is
// safe for concurrent use. Encoders and decoders hold megabytes of tables: they
// are used again. None of them starts goroutines, because only whole blobs are
// passed through.
type blobCodec struct {
	base               string // hash of the base; empty for none
	baseHeap           []byte
	encoders, decoders sync.Pool
}

// plainCodec packs blobs that share nothing worth knowing.
var plainCodec = newPacking("", nil)

// newPacking packs against a base, which must not change any more.
func newPacking(hash string, base []byte) *blobCodec {
	// Matches reach back into the base from as far as the window goes.
	const window = maxWindow
	enc := []zstd.EOption{zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(window)}
	dec := []zstd.DOption{zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxBlobBytes), zstd.WithDecodeAllCapLimit(true)}
	if len(base) > 0 {
		// The fastest level remembers too little of a base to find it again.
		enc = append(enc, zstd.WithEncoderLevel(zstd.SpeedDefault))
		// Without an id, as other tools write raw dictionaries.
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

// encodeAsync is compress on another core, meanwhile: the answer waits for it.
func (p *blobCodec) encodeAsync(blob []byte) encodedBlob {
	done := make(chan []byte, 1)
	go func() { done <- p.compress(blob) }()
	return encodedBlob{size: len(blob), base: p.base, bytes: sync.OnceValue(func() []byte { return <-done })}
}

// decompress returns exactly size bytes or an error. It never takes more
// memory than size, whatever the packed bytes claim.
func (p *blobCodec) decompress(packed []byte, size int) ([]byte, error) {
	d := p.decoders.Get().(*zstd.Decoder)
	defer p.decoders.Put(d)
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

// unpackStream unpacks a blob in pieces. It holds a window of at most that many
// bytes: packed bytes that ask for more are refused when they are read.
func (p *blobCodec) unpackStream(packed io.Reader, window uint64) (*zstd.Decoder, error) {
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
