package link

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// Pace is the least speed at which a client takes messages. Only the time in which the
// owner waits for the client counts, so a client without messages is not slow.
type Pace struct {
	// Bytes is what a client must take in each Window. Without a Window nothing is
	// asked for.
	Bytes  int64
	Window time.Duration
}

// errSlow ends the connection of a client that takes its messages too slowly. The client
// attaches again once it reads, and sends the lines that have no answer.
var errSlow = errors.New("the client takes its messages too slowly")

// writePiece is how much is written under one deadline, in bytes.
const writePiece = 64 << 10

// write writes a frame at the client's pace. The caller must hold c.writing.
func (c *Conn) write(f frame) error {
	if c.pace.Window == 0 {
		return writeFrame(c.conn, f)
	}
	err := writeFrame(pacedWriter{c}, f)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("%w: less than %d bytes in %s", errSlow, c.pace.Bytes, c.pace.Window)
		c.onStall()
		c.Cut()
	}
	return err
}

// progress is what a client did with the window that it is in: how long it was waited
// for, and how many bytes it took.
type progress struct {
	waited time.Duration
	moved  int64
}

// pacedWriter moves the deadline of a connection with the progress of its client.
type pacedWriter struct{ c *Conn }

// Write writes p piece by piece, each under a deadline of its own.
func (w pacedWriter) Write(p []byte) (done int, err error) {
	pace, at := w.c.pace, &w.c.progress
	for done < len(p) && err == nil {
		start := time.Now()
		if err := w.c.conn.SetWriteDeadline(start.Add(max(pace.Window-at.waited, 0))); err != nil {
			return done, fmt.Errorf("set a deadline: %w", err)
		}
		var n int
		n, err = w.c.conn.Write(p[done:min(done+writePiece, len(p))])
		done += n
		at.waited += time.Since(start)
		if at.moved += int64(n); n > 0 && at.moved >= pace.Bytes {
			*at = progress{}
		}
	}
	return done, err //nolint:wrapcheck // Conn.write names it
}
