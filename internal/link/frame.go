package link

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// header precedes the bytes of each frame, as one line of JSON.
type header struct {
	// Line is the number of the client's line in the frame, counted from 1.
	Line uint64 `json:"line,omitempty"`
	// Again marks a line that was sent to an owner before. Seen is the number of messages
	// about the line that the client has received so far.
	Again bool `json:"again,omitempty"`
	Seen  int  `json:"seen,omitempty"`
	// State marks a line that an earlier owner asked the client's end to keep.
	State bool `json:"state,omitempty"`

	// Done lists lines that need not be sent again.
	Done []uint64 `json:"done,omitempty"`
	// About is the number of the line that the frame's message belongs to, if the message
	// does not answer the line.
	About uint64 `json:"about,omitempty"`
	// Keep is the name of a slot of the connection's state. Its line of Kept bytes
	// precedes the message. With 0 bytes the slot is emptied.
	Keep string `json:"keep,omitempty"`
	Kept int    `json:"kept,omitempty"`
	// End marks the last frame of an owner. Error is the reason why the owner ended the
	// connection.
	End   bool   `json:"end,omitempty"`
	Error string `json:"error,omitempty"`

	// Bytes is the length of the message, or 0.
	Bytes int `json:"bytes,omitempty"`
}

// frame is a header and its bytes, without line ends.
type frame struct {
	header
	kept, message []byte
}

const (
	// maxHeaderBytes bounds a header, in bytes. It is large because many lines can be done
	// at once.
	maxHeaderBytes = 64 << 10
	// maxMessageBytes bounds each part of a frame, in bytes.
	maxMessageBytes = 256 << 20
)

// writeFrame writes a frame with one Write.
func writeFrame(to io.Writer, f frame) error {
	f.Kept, f.Bytes = len(f.kept), len(f.message)
	head, err := json.Marshal(f.header)
	if err != nil {
		return fmt.Errorf("encode frame: %w", err)
	}
	buf := make([]byte, 0, len(head)+1+len(f.kept)+len(f.message))
	buf = append(append(append(append(buf, head...), '\n'), f.kept...), f.message...)
	_, err = to.Write(buf)
	return err
}

// readFrame returns the next complete frame. It calls hold with the number of bytes
// before it reads them. It returns io.EOF if the input ends between two frames, and
// io.ErrUnexpectedEOF if it ends within one.
func readFrame(r *bufio.Reader, hold func(n int) error) (frame, error) {
	var f frame
	head, err := readHeader(r)
	if err != nil {
		return f, err
	}
	if err := json.Unmarshal(head, &f.header); err != nil {
		return f, fmt.Errorf("read frame: %w", err)
	}
	if f.Kept < 0 || f.Bytes < 0 || f.Kept > maxMessageBytes || f.Bytes > maxMessageBytes {
		return f, fmt.Errorf("read frame: the announced lengths %d and %d exceed %d bytes", f.Kept, f.Bytes, maxMessageBytes)
	}
	if err := hold(f.Kept + f.Bytes); err != nil {
		return f, err
	}
	if f.kept, err = readBytes(r, f.Kept); err != nil {
		return f, err
	}
	f.message, err = readBytes(r, f.Bytes)
	return f, err
}

func readHeader(r *bufio.Reader) ([]byte, error) {
	var head []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(head)+len(part) > maxHeaderBytes {
			return nil, fmt.Errorf("read frame: the header is longer than %d bytes", maxHeaderBytes)
		}
		head = append(head, part...)
		switch {
		case err == nil:
			return head, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(head) > 0:
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
	}
}

// readBytes allocates memory for received bytes only, not for announced ones.
func readBytes(r io.Reader, n int) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	data, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err == nil && len(data) < n {
		err = io.ErrUnexpectedEOF
	}
	return data, err
}
