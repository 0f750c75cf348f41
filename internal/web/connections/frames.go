package connections

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/net/http2/hpack"
)

// Types and flags of HTTP/2 frames, and sizes in bytes.
const (
	frameHeaderBytes = 9
	// preface is what an HTTP/2 client sends before its first frame.
	preface      = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	prefaceBytes = len(preface)

	frameData         = 0x0
	frameHeaders      = 0x1
	framePriority     = 0x2
	frameReset        = 0x3
	frameSettings     = 0x4
	framePing         = 0x6
	frameGoAway       = 0x7
	frameWindowUpdate = 0x8
	frameContinuation = 0x9

	settingBytes     = 6
	settingTableSize = 0x1

	flagAck        = 0x1
	flagEndStream  = 0x1
	flagEndHeaders = 0x4
	flagPadded     = 0x8
	flagPriority   = 0x20
)

const (
	// maxBlockFrames bounds the frames of a request header, and maxBlockBytes its
	// encoded bytes. net/http closes a connection that sends about 40 KiB.
	maxBlockFrames = 16
	maxBlockBytes  = 64 << 10
	// largeHeader is the decoded size of a header, in bytes, above which a connection
	// may have only one such request at a time. It is less than the size that net/http
	// refuses, so that all headers that net/http refuses are large.
	largeHeader = 20 << 10
	// hpackTable is the size of the HPACK table, in bytes. net/http uses the same size.
	hpackTable = 4096
)

var (
	errTooManyFrames = errors.New("the header of a request has too many frames or bytes")
	errOutOfOrder    = errors.New("a frame of another type interrupts a header")
	errPadding       = errors.New("the padding of a header is longer than its frame")
	errNoPreface     = errors.New("an HTTP/2 connection does not start with the preface")
	errEarlier       = errors.New("the header of a request reuses an earlier stream")
	errIdle          = errors.New("a frame refers to a stream that is not open yet")
	errEmpty         = errors.New("the header of a request is empty")
	errTableSize     = errors.New("the size of the header table changes after a request")
)

// frame is the header of an HTTP/2 frame.
type frame struct {
	kind   byte
	flags  byte
	stream uint32
	length int
}

// frames finds the headers of frames in one direction of a connection.
type frames struct {
	skip    int // bytes before the next header
	header  [frameHeaderBytes]byte
	have    int
	current frame
}

// next consumes bytes of p up to the end of a frame's header or payload, and returns
// their number. started is true if these bytes complete the header of a frame. Otherwise
// they are a part of an incomplete header, or of the payload of the current frame.
func (f *frames) next(p []byte) (used int, started bool) {
	if f.skip > 0 {
		used = min(f.skip, len(p))
		f.skip -= used
		return used, false
	}
	used = copy(f.header[f.have:], p)
	if f.have += used; f.have < frameHeaderBytes {
		return used, false
	}
	f.have = 0
	h := f.header
	f.current = frame{
		kind: h[3], flags: h[4], stream: binary.BigEndian.Uint32(h[5:]) &^ (1 << 31),
		length: int(h[0])<<16 | int(h[1])<<8 | int(h[2]),
	}
	f.skip = f.current.length
	return used, true
}

// word collects a number in a payload: the first 32 bits, or the identifier of a
// setting.
type word struct {
	value uint32
	have  int // bytes
}

// take consumes a part of the payload and reports whether it completes the number.
func (w *word) take(p []byte) (complete bool) {
	for _, b := range p[:min(len(p), 4-w.have)] {
		w.value = w.value<<8 | uint32(b)
		w.have++
		complete = w.have == 4
	}
	return complete
}

// setting consumes a part of a SETTINGS payload that starts at offset before. It
// reports whether an identifier that ends in this part is the one of the HPACK table
// size.
func (w *word) setting(p []byte, before int) (tableSize bool) {
	for i, b := range p {
		switch (before + i) % settingBytes {
		case 0:
			w.value = uint32(b) << 8
		case 1:
			tableSize = tableSize || w.value|uint32(b) == settingTableSize
		}
	}
	return tableSize
}

// block decodes the header of a request in HEADERS and CONTINUATION frames, and counts
// its fields.
type block struct {
	decoder *hpack.Decoder
	open    bool
	frames  int
	bytes   int
	before  int // bytes of the frame before the fragment
	left    int // bytes of the fragment that are left
	padded  bool
	fields  int
	size    int  // as in SETTINGS_MAX_HEADER_LIST_SIZE
	request bool // has a pseudo-header field, so it is no trailer
}

func newBlock() *block {
	b := &block{}
	b.decoder = hpack.NewDecoder(hpackTable, func(f hpack.HeaderField) {
		b.fields++
		b.size += int(f.Size())
		b.request = b.request || f.IsPseudo()
	})
	b.decoder.SetMaxStringLength(maxBlockBytes)
	return b
}

// begin consumes the header of a HEADERS or CONTINUATION frame.
func (b *block) begin(f frame) error {
	if (f.kind == frameContinuation) != b.open {
		return errOutOfOrder
	}
	if f.kind == frameHeaders {
		b.open, b.frames, b.bytes, b.fields, b.size, b.request = true, 0, 0, 0, 0, false
	}
	b.frames++
	b.bytes += f.length
	if b.frames > maxBlockFrames || b.bytes > maxBlockBytes {
		return errTooManyFrames
	}
	b.before, b.left, b.padded = 0, f.length, false
	if f.kind == frameHeaders {
		b.padded = f.flags&flagPadded != 0
		if b.padded {
			b.before++
		}
		if f.flags&flagPriority != 0 {
			b.before += 5
		}
	}
	return nil
}

// payload consumes a part of the payload of a HEADERS or CONTINUATION frame. It returns an
// error for padding that is too long: net/http would not decode this header, but would keep
// the connection and decode the next headers, so that its HPACK table would differ from the
// table of the block.
func (b *block) payload(p []byte) error {
	for len(p) > 0 && b.before > 0 {
		if b.padded { // the first byte is the length of the padding
			b.left -= int(p[0])
			b.padded = false
		}
		b.before--
		b.left--
		p = p[1:]
		if b.left < b.before {
			return errPadding
		}
	}
	p = p[:min(len(p), b.left)]
	b.left -= len(p)
	if _, err := b.decoder.Write(p); err != nil {
		return fmt.Errorf("decode a request header: %w", err)
	}
	return nil
}

// end ends the header and reports whether it is large.
func (b *block) end() (large bool, err error) {
	b.open = false
	if err := b.decoder.Close(); err != nil {
		return false, fmt.Errorf("decode a request header: %w", err)
	}
	return b.fields > maxLines || b.size > largeHeader, nil
}
