package connections

import (
	"time"
)

// closeTimeout bounds how long a shutdown waits for the ends of answers.
const closeTimeout = 3 * time.Second

// Write writes frames of the server. Frames that end a stream release its place before
// the client can see them and request the next stream.
func (c *frameConn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.since.Store(time.Now().UnixNano())
	defer c.endWrite()
	for rest := p; len(rest) > 0; {
		used, started := c.out.next(rest)
		rest = rest[used:]
		f := c.out.current
		if started {
			c.beginOutgoing(f)
		}
		// A frame, or a header of several frames, may be divided among several Writes.
		if c.last != 0 && c.out.skip == 0 && (f.kind == frameData || f.flags&flagEndHeaders != 0) {
			c.end(c.last)
			c.last = 0
		}
	}
	return c.Conn.Write(p) //nolint:wrapcheck // net/http compares it
}

// beginOutgoing consumes the header of a frame of the server.
func (c *frameConn) beginOutgoing(f frame) {
	switch f.kind {
	case frameReset:
		if !c.reset(f.stream) { // the answer to a frame for an ended stream
			c.countAnsweredFrame()
		}
	case frameGoAway:
		c.isLeaving.Store(true)
	case frameData, frameHeaders:
		if f.kind == frameData {
			c.count(func(s *surplus, _ time.Time) { s.earn(f.length) })
		}
		if f.flags&flagEndStream != 0 {
			c.last = f.stream
		}
	}
}

// endWrite ends a Write. It closes a connection that waits for the end of its last answer.
func (c *frameConn) endWrite() {
	c.since.Store(0)
	c.mu.Lock()
	last := c.closer != nil && !c.hasUnwrittenAnswer()
	c.mu.Unlock()
	if last {
		_ = c.cut() // net/http has closed it
	}
}

// hasUnwrittenAnswer reports whether the end of an answer is not written yet. net/http writes
// that end after the handler returned. The stream is removed from c.streams before the end is
// written, so a running Write counts too. The caller must hold mu.
func (c *frameConn) hasUnwrittenAnswer() bool { return len(c.streams) > 0 || c.since.Load() != 0 }

// Close closes the connection. During a shutdown, the last handler ends before the end of
// its answer is written. So if all handlers have ended then, Close returns immediately, and
// the connection is closed after its answers are written, at most closeTimeout later.
func (c *frameConn) Close() error {
	if c.below.limiter.shutdown.Load() && c.below.limiter.countRunning(c.below) == 0 && c.closeLater() {
		return nil
	}
	return c.cut()
}

// closeLater reports whether the connection will be closed after its answers are
// written.
func (c *frameConn) closeLater() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || !c.hasUnwrittenAnswer() {
		return false
	}
	if c.closer == nil {
		c.closer = time.AfterFunc(closeTimeout, func() { _ = c.cut() }) // the client had enough time
	}
	return true
}

// cut closes the connection without waiting for its answers.
func (c *frameConn) cut() error {
	c.stopWaits()
	return c.Conn.Close() //nolint:wrapcheck // net/http ignores it
}

// stopWaits ends the waits of the connection, before it is closed. The places of its
// streams are released after their handlers had time to end.
func (c *frameConn) stopWaits() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	if c.closer != nil {
		c.closer.Stop()
	}
	close(c.done)
	c.below.limiter.surplus.connections.Add(-1)
	if n := c.places; n > 0 {
		time.AfterFunc(resetTime, func() { c.below.limiter.streams.release(n) })
	}
}
