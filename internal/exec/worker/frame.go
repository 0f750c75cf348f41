package worker

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
)

// A frame consists of a length (4 bytes, big-endian), a type (1 byte) and a payload. The
// length counts the type and the payload.
const (
	maxFrame   = 1 << 20
	maxPayload = maxFrame - 5
)

// copiedPayload is the size in bytes below which writeFrame copies a payload behind the
// header, for one system call. From this size on, a second system call costs less than the
// copy.
const copiedPayload = 32 << 10

type frameType byte

const (
	// Parent to worker.
	frameHello     frameType = 'H' // helloMessage, then the base heap in data frames
	frameTask      frameType = 'T' // taskHeader, then its bodies in data frames
	frameAnswer    frameType = 'N' // answerHeader, then its text in data frames; only after a wait frame
	frameModules   frameType = 'M' // modulesHeader, then a bundle in data frames; only after an imports frame
	frameTerminate frameType = 'X' // empty: ends the run; ignored if the run has ended
	frameAhead     frameType = 'B' // empty: restores the heap that the last task saved; only between tasks
	frameDrop      frameType = 'O' // empty: forgets the heap that the last task saved; only between tasks

	// Worker to parent.
	frameReady    frameType = 'R' // readyMessage, then the base heap in data frames
	frameAccepted frameType = 'A' // empty: the worker received the whole task and starts it
	frameCarried  frameType = 'I' // v8.Carried, the report on the input heap; before any code runs
	frameImports  frameType = 'P' // importsMessage; before any code runs, until the parent answers no other frame but the end
	frameLines    frameType = 'L' // lines
	frameCall     frameType = 'C' // callHeader, then the arguments in data frames
	frameWait     frameType = 'W' // waitMessage; until the parent answers, the worker may send only an end frame
	frameTimer    frameType = 'F' // timerMessage; only if the task asks for it
	frameArtifact frameType = 'G' // artifactHeader, then the bytes in data frames
	frameEnd      frameType = 'E' // endHeader, then its bodies in data frames

	// Both directions.
	frameData frameType = 'D' // a piece of a body
)

// pipeBuffer is the size in bytes of the buffers for reading and writing. It holds a few small
// frames, which then wake the other process once: waking it takes longer than copying them.
const pipeBuffer = 16 << 10

// writeBuffered calls write with a writer that collects what is written, and passes it on to
// w. Small frames then take one system call together.
func writeBuffered(w io.Writer, write func(w io.Writer) error) error {
	return writeThrough(bufio.NewWriterSize(w, pipeBuffer), write)
}

// writeThrough is writeBuffered for a buffer that is used again.
func writeThrough(b *bufio.Writer, write func(w io.Writer) error) error {
	if err := write(b); err != nil {
		return err
	}
	return b.Flush()
}

// writeFrame writes one frame. Goroutines that write to the same w MUST hold a lock, because
// a frame can take two writes.
func writeFrame(w io.Writer, t frameType, payload []byte) error {
	if len(payload) > maxPayload {
		return fmt.Errorf("write frame %c: %d bytes are more than a frame holds", t, len(payload))
	}
	b := make([]byte, 5, 5+min(len(payload), copiedPayload))
	binary.BigEndian.PutUint32(b, uint32(1+len(payload)))
	b[4] = byte(t)
	if len(payload) < copiedPayload {
		_, err := w.Write(append(b, payload...))
		return err
	}
	if _, err := w.Write(b); err != nil {
		return err
	}
	_, err := w.Write(payload)
	return err
}

// writeBody writes the parts in order as data frames. A frame holds bytes of one part only.
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

// frameReader decodes frames. It allocates at most the maximum size of a frame.
type frameReader struct {
	r      io.Reader
	header [5]byte
	buf    []byte
	// allocate, if set, returns memory for a payload of n bytes, or nil to use buf.
	allocate func(t frameType, n int) []byte
}

// next returns the next frame. The payload is valid until the next call. The error is
// io.EOF only between frames.
func (f *frameReader) next() (frameType, []byte, error) {
	if _, err := io.ReadFull(f.r, f.header[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(f.header[:])
	if size < 1 || size > 1+maxPayload {
		return 0, nil, fmt.Errorf("%w: a frame of %d bytes", errProtocol, size)
	}
	t, n := frameType(f.header[4]), int(size)-1
	payload := f.payloadMemory(t, n)
	if _, err := io.ReadFull(f.r, payload); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	return t, payload, nil
}

// payloadMemory returns n bytes for a payload.
func (f *frameReader) payloadMemory(t frameType, n int) []byte {
	if f.allocate != nil {
		if b := f.allocate(t, n); len(b) == n {
			return b
		}
	}
	if cap(f.buf) < n {
		f.buf = make([]byte, n, max(n, 64<<10))
	}
	return f.buf[:n]
}
