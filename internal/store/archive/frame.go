package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"

	"daybook/events"
)

// A frame is a zstd frame with a checksum. Its content is the version and the position before
// the first event, and for each event the distance from the position before it, the subject,
// the headers and the body. Numbers are unsigned varints, and byte strings follow their
// length. A header is a name and a value; headers are sorted by name.

const (
	frameVersion = 1
	// frameBytes is the size from which a frame is complete, in bytes before compression.
	// A lookup decompresses one or two frames.
	frameBytes = 256 << 10
	// maxFrameBytes bounds the content of a frame: the largest event is added to one that is
	// almost complete.
	maxFrameBytes = frameBytes + 1<<20
)

var errFormat = errors.New("not in the format of an archive")

// encoder returns an encoder of frames. It starts no goroutines, because only complete frames
// are passed to it.
func newEncoder() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithWindowSize(1<<20))
	if err != nil {
		panic(err) // the options are constants
	}
	return e
}

// decoders holds decoders of frames, which have large tables.
var decoders = sync.Pool{New: func() any {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxFrameBytes), zstd.WithDecoderMaxWindow(maxFrameBytes))
	if err != nil {
		panic(err) // the options are constants
	}
	return d
}}

// appendEvent appends an event to the content of a frame. before is the position before it.
func appendEvent(dst []byte, before uint64, m events.Stored) []byte {
	dst = binary.AppendUvarint(dst, m.Seq-before)
	dst = appendBytes(dst, m.Subject)
	header := []byte{}
	for _, name := range slices.Sorted(maps.Keys(m.Header)) {
		if events.IsDeliveryHeader(name) {
			continue
		}
		for _, value := range m.Header[name] {
			header = appendBytes(appendBytes(header, name), value)
		}
	}
	return appendBytes(appendBytes(dst, header), m.Body)
}

func appendBytes[T string | []byte](dst []byte, b T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// frame is a decoded frame. It is immutable.
type frame struct {
	list []record
	size int
}

// record is an event in the content of a frame.
type record struct {
	seq                   uint64
	subject, header, body []byte
}

// decodeFrame decodes a frame, which may come from anyone.
func decodeFrame(packed []byte) (*frame, error) {
	d := decoders.Get().(*zstd.Decoder)
	defer decoders.Put(d)
	raw, err := d.DecodeAll(packed, make([]byte, 0, frameBytes+frameBytes/8))
	if err != nil {
		return nil, fmt.Errorf("decompress a frame: %w", err)
	}
	in := input{raw}
	if in.number() != frameVersion {
		return nil, fmt.Errorf("the version of a frame: %w", errFormat)
	}
	seq := in.number()
	f := &frame{size: cap(raw)}
	for len(in.rest) > 0 && !in.bad() {
		distance := in.number()
		r := record{seq: seq + distance, subject: in.bytes(), header: in.bytes(), body: in.bytes()}
		if distance == 0 || r.seq < distance || len(r.subject) == 0 {
			return nil, fmt.Errorf("the event after position %d: %w", seq, errFormat)
		}
		if _, err := fields(r.header); err != nil {
			return nil, fmt.Errorf("the headers of position %d: %w", r.seq, err)
		}
		f.list, seq = append(f.list, r), r.seq
	}
	if in.bad() || len(f.list) == 0 {
		return nil, fmt.Errorf("a frame ends early: %w", errFormat)
	}
	f.size += len(f.list) * 96
	return f, nil
}

// fields decodes headers.
func fields(raw []byte) (map[string][]string, error) {
	h := map[string][]string{}
	in := input{raw}
	before := ""
	for len(in.rest) > 0 {
		name, value := string(in.bytes()), string(in.bytes())
		if in.bad() || name == "" || name < before {
			return nil, errFormat
		}
		h[name], before = append(h[name], value), name
	}
	return h, nil
}

// stored returns the event in memory of its own.
func (r record) stored() events.Stored {
	h, _ := fields(r.header) // decodeFrame has checked them
	return events.Stored{Seq: r.seq, Subject: string(r.subject), Header: h, Body: bytes.Clone(r.body)}
}

// input reads numbers and byte strings. After a failure all results are zero, and bad is true.
type input struct{ rest []byte }

func (in *input) bad() bool { return in.rest == nil }

func (in *input) number() uint64 {
	v, n := binary.Uvarint(in.rest)
	if n <= 0 || n > 1 && in.rest[n-1] == 0 { // each number has one form
		in.rest = nil
		return 0
	}
	in.rest = in.rest[n:]
	return v
}

func (in *input) bytes() []byte {
	n := in.number()
	if in.bad() || n > uint64(len(in.rest)) {
		in.rest = nil
		return nil
	}
	b := in.rest[:n:n]
	in.rest = in.rest[n:]
	return b
}

// Sum is a hash over events, in order.
type Sum [sha256.Size]byte

// Add adds an event.
func (s *Sum) Add(m events.Stored) {
	var room [2 << 10]byte
	*s = sha256.Sum256(appendEvent(append(room[:0], s[:]...), 0, m))
}
