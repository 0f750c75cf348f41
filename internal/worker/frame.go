package worker

import (
	"encoding/binary"
	"fmt"
	"io"
)

// A frame is a 4-byte big-endian length, a type, and a payload; the length
// counts the type and the payload.
const (
	maxFrame   = 1 << 20
	maxPayload = maxFrame - 5
)

type frameType byte

const (
	// Parent to worker.
	frameHello     frameType = 'H' // magic
	frameTask      frameType = 'T' // taskHeader, then its bodies in data frames
	frameTerminate frameType = 'X' // empty; stale ones are ignored

	// Worker to parent.
	frameReady    frameType = 'R' // readyMessage
	frameAccepted frameType = 'A' // empty: the task is here whole and begins
	frameLines    frameType = 'L' // lines
	frameEnd      frameType = 'E' // endHeader, then its bodies in data frames

	// Both ways.
	frameData frameType = 'D' // a piece of a body
)

// writeFrame writes one frame in one call, so that frames of several goroutines
// with a lock around it do not mix.
func writeFrame(w io.Writer, t frameType, payload []byte) error {
	if len(payload) > maxPayload {
		return fmt.Errorf("write frame %c: %d bytes are more than a frame holds", t, len(payload))
	}
	b := make([]byte, 5, 5+len(payload))
	binary.BigEndian.PutUint32(b, uint32(1+len(payload)))
	b[4] = byte(t)
	_, err := w.Write(append(b, payload...))
	return err
}

// writeBody writes the parts, one after another, in as many data frames as it
// takes. Empty parts take none.
func writeBody(w io.Writer, parts ...[]byte) error {
	for _, part := range parts {
		for len(part) > 0 {
			n := min(len(part), maxPayload)
			if err := writeFrame(w, frameData, part[:n]); err != nil {
				return err
			}
			part = part[n:]
		}
	}
	return nil
}

// frameReader decodes frames. It allocates no more than a frame may hold.
type frameReader struct {
	r      io.Reader
	header [5]byte
	buf    []byte
}

// next returns a frame, its payload valid until the following call. The error is
// io.EOF only between frames.
func (f *frameReader) next() (frameType, []byte, error) {
	if _, err := io.ReadFull(f.r, f.header[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(f.header[:])
	if size < 1 || size > 1+maxPayload {
		return 0, nil, fmt.Errorf("%w: a frame of %d bytes", errProtocol, size)
	}
	n := int(size) - 1
	if cap(f.buf) < n {
		f.buf = make([]byte, n, max(n, 64<<10))
	}
	f.buf = f.buf[:n]
	if _, err := io.ReadFull(f.r, f.buf); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	return frameType(f.header[4]), f.buf, nil
}
