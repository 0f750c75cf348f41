package link

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// Pace is the minimum speed at which a client must receive messages. Only the time that
// the owner waits for the client counts, so a client without messages is not slow.
type Pace struct {
	// Bytes is the number of bytes that a client must receive in each Window of
	// waiting. A zero Window sets no minimum.
	Bytes  int64
	Window time.Duration
}

// errSlow is returned after the connection of a slow client was closed. The client
// attaches again when it reads, and sends its unanswered lines again.
var errSlow = errors.New("the client takes its messages too slowly")

// writePiece is the number of bytes that are written under one deadline.
const writePiece = 64 << 10

// write writes a frame, with the minimum speed of Pace. The caller must hold c.writing.
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

// progress is the state of the current window: how long the owner waited, and how many
// bytes the client received.
type progress struct {
	waited time.Duration
	moved  int64
}

// pacedWriter writes to the client with deadlines at the end of the current window.
type pacedWriter struct{ c *Conn }

// Write writes p piece by piece, with a new deadline for each.
func (w pacedWriter) Write(p []byte) (done int, err error) {
	pace, at := w.c.pace, &w.c.progress
	for done < len(p) && err == nil {
		start := time.Now()
		if err := w.c.conn.SetWriteDeadline(start.Add(max(pace.Window-at.waited, 0))); err != nil {
			return done, fmt.Errorf("set write deadline: %w", err)
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
