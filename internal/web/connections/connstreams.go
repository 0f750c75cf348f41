package connections

import (
	"errors"
	"net"
	"time"
)

const (
	// resetTime is how long a reset stream keeps its place. The time starts again while the
	// handler of the stream may run.
	resetTime = time.Second
	// stallTimeout bounds how long a connection waits for its own streams to end, and for
	// the rest of a header.
	stallTimeout = 10 * time.Second
	// maxPlaces bounds the streams of a connection that have places: the open ones, and
	// as many reset ones.
	maxPlaces = 2 * maxStreams
)

var (
	errStalled = errors.New("the streams of a connection do not end in time")
	errLarge   = errors.New("a connection has two concurrent requests with large headers")
)

// stream is an open stream.
type stream struct {
	large bool // its header is large
	late  bool // it got no place in time and has none
	body  bool // the client sends a body
	size  int  // encoded size of its header, in bytes
}

// endHeader checks a header whose last byte is not yet returned to net/http. net/http
// opens a stream for a request even if a malformed request before it had the same stream
// id or a higher one. Such a stream would have no place.
func (c *frameConn) endHeader(stream uint32) error {
	large, err := c.block.end()
	if err == nil && c.trailer && c.block.request {
		err = errEarlier
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	st, open := c.streams[stream]
	if !open {
		return nil // net/http refuses it
	}
	if large {
		if c.large > 0 {
			return errLarge
		}
		c.large++
		st.large = true
	}
	st.size += c.block.bytes
	c.streams[stream] = st
	return nil
}

// open takes a place for a stream. A connection without places always gets one. Of the
// streams of a connection that get no place in time, the Limiter refuses one at a time.
// After Close no stream opens, because a server that shuts down does not wait for the
// handler of such a stream.
func (c *frameConn) open(id uint32) error {
	if err := c.waitUntil(func() bool { return c.places < maxPlaces && c.closer == nil }); err != nil {
		return err
	}
	c.mu.Lock()
	first := c.places == 0
	c.mu.Unlock()
	var st stream
	if st.late = !c.below.limiter.streams.take(first, c.done); st.late {
		if err := c.waitUntil(func() bool { return !c.below.hasLateStream.Load() }); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		if !st.late {
			c.below.limiter.streams.release(1)
		}
		return net.ErrClosed
	case st.late:
		c.below.hasLateStream.Store(true)
	default:
		c.places++
	}
	c.streams[id], c.hasOpened = st, true
	return nil
}

// waitUntil waits until ok returns true. It calls ok with mu held.
func (c *frameConn) waitUntil(ok func() bool) error {
	var late <-chan time.Time
	for {
		c.mu.Lock()
		holds := ok()
		c.mu.Unlock()
		if holds {
			return nil
		}
		if late == nil {
			timer := time.NewTimer(stallTimeout)
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-c.streamEnded:
		case <-late:
			return errStalled
		case <-c.done:
			return net.ErrClosed
		}
	}
}

// end releases the place of a stream that the server has answered.
func (c *frameConn) end(id uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if st, open := c.streams[id]; open {
		delete(c.streams, id)
		c.releasePlace(st)
	}
}

// reset releases the place of a stream that either side resets, after its handler had
// time to end. It reports whether the stream was open.
func (c *frameConn) reset(id uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	st, open := c.streams[id]
	if !open {
		return false
	}
	delete(c.streams, id)
	work := resetWork
	if st.body {
		work = bodyWork
	}
	c.work.add(work+st.size/headerBytes, time.Now())
	var later func()
	later = func() {
		running := c.below.limiter.countRunning(c.below)
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.closed && running > len(c.streams) { // handlers of reset streams still run
			time.AfterFunc(resetTime, later)
			return
		}
		c.releasePlace(st)
	}
	time.AfterFunc(resetTime, later)
	return true
}

// hadStream reports whether the client has opened a stream.
func (c *frameConn) hadStream() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hasOpened
}

// releasePlace releases the place of a stream, unless the connection is closed: stopWaits
// releases the remaining places. The caller must hold mu.
func (c *frameConn) releasePlace(st stream) {
	if c.closed {
		return
	}
	if st.large {
		c.large--
	}
	if st.late {
		c.below.hasLateStream.Store(false)
	} else {
		c.places--
		c.below.limiter.streams.release(1)
	}
	select {
	case c.streamEnded <- struct{}{}:
	default: // already has a value
	}
}
