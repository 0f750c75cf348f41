// Package lines reads messages that are one line each, from peers that may send endless
// lines. lines.go is its only file.
package lines

import (
	"bufio"
	"errors"
	"io"
)

// ErrTooLong is returned for a line longer than the limit.
var ErrTooLong = errors.New("line too long")

// Read returns the next line, including its end. The last line may have no end, and is
// returned with io.EOF. For a line of more than limit bytes, including its end, Read
// skips the line and returns ErrTooLong; the caller may then read the next line. Read
// holds at most limit bytes besides the buffer of r.
func Read(r *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	tooLong := false
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > limit {
			tooLong, line = true, nil
		}
		if !tooLong {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case tooLong && (err == nil || errors.Is(err, io.EOF)):
			return nil, ErrTooLong
		default:
			return line, err
		}
	}
}
