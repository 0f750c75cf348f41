package blobs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
)

// blobCodec compresses blobs, as such or as a delta against a base heap. It is safe for
// concurrent use. Its encoders and decoders start no goroutines, because only complete
// blobs are passed to them.
type blobCodec struct {
	base     string // hash of the base; empty for none
	baseHeap []byte
	encoders coders[*encoder]
	decoders coders[*zstd.Decoder]
	// large holds encoders for blobs that smallWindow is too small for. Each holds eight
	// megabytes more, so the garbage collector may drop them.
	large sync.Pool
}

// smallWindow is the maximum distance of references in blobs up to this size with their base,
// in bytes. An encoder holds a history of the size of its window, however small a blob is.
const smallWindow = 2 << 20

// encoder is an encoder with memory for the encoded form.
type encoder struct {
	zstd    *zstd.Encoder
	scratch []byte
}

// minScratch and maxScratch bound the memory that an encoder keeps for the encoded form, in
// bytes. Without any, the encoder would allocate as much as the blob has.
const (
	minScratch = 32 << 10
	maxScratch = 128 << 10
)

// plainCodec encodes blobs without a base.
var plainCodec = newBlobCodec("", nil)

// newBlobCodec returns a codec for a base heap. base MUST NOT be changed afterwards.
func newBlobCodec(hash string, base []byte) *blobCodec {
	enc := []zstd.EOption{
		zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithLowerEncoderMem(true), // otherwise the history has twice the size of the window
	}
	dec := []zstd.DOption{zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxBlobBytes), zstd.WithDecodeAllCapLimit(true)}
	if len(base) > 0 {
		// The fastest level indexes too little of a base to find matches in it.
		enc = append(enc, zstd.WithEncoderLevel(zstd.SpeedDefault))
		// The id 0 means that the encoded blob names no dictionary.
		enc = append(enc, zstd.WithEncoderDictRaw(0, base))
		dec = append(dec, zstd.WithDecoderDictRaw(0, base))
	}
	p := &blobCodec{base: hash, baseHeap: base}
	// Matches reach back into the base by up to the window.
	newEncoder := func(window int) *encoder {
		e, err := zstd.NewWriter(nil, append(enc[:len(enc):len(enc)], zstd.WithWindowSize(window))...)
		if err != nil {
			panic(err) // the options are constants
		}
		return &encoder{zstd: e, scratch: make([]byte, 0, minScratch)}
	}
	p.encoders = newCoders(func() *encoder { return newEncoder(smallWindow) })
	p.large.New = func() any { return newEncoder(maxWindow) }
	p.decoders = newCoders(func() *zstd.Decoder {
		d, err := zstd.NewReader(nil, dec...)
		if err != nil {
			panic(err) // the options are constants
		}
		return d
	})
	return p
}

// expireCoders frees the memory of the encoders and decoders that were not used for a duration.
func (p *blobCodec) expireCoders(unused time.Duration) {
	p.encoders.expire(unused)
	p.decoders.expire(unused)
}

func (p *blobCodec) compress(blob []byte) (packed []byte) {
	if len(p.baseHeap)+len(blob) > smallWindow {
		e := p.large.Get().(*encoder)
		defer p.large.Put(e)
		return e.compress(blob)
	}
	p.encoders.use(func(e *encoder) { packed = e.compress(blob) })
	return packed
}

func (e *encoder) compress(blob []byte) []byte {
	packed := e.zstd.EncodeAll(blob, e.scratch[:0])
	if cap(packed) > maxScratch {
		return packed // the caller gets it
	}
	e.scratch = packed
	return bytes.Clone(packed)
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
	var blob []byte
	var err error
	p.decoders.use(func(d *zstd.Decoder) { blob, err = d.DecodeAll(packed, make([]byte, 0, size)) })
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
