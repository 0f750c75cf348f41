// Package lines reads messages that are a line each, from peers that may send
// lines without end.
package lines

import (
	"bufio"
	"errors"
	"io"
)

// ErrTooLong reports a line that was longer than allowed.
var ErrTooLong = errors.New("line too long")

// Read returns the next line, with its end if it has one: the last one may have
// none, and comes with io.EOF. A line of more than limit bytes, its end included,
// is read to its end, dropped, and reported as ErrTooLong; the next one can be
// read. It holds no more than limit bytes and what r does.
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
