package connections

import (
	"container/list"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// resetTime is how long a stream that its client resets keeps its place, and as long
	// again while its handler may run.
	resetTime = time.Second
	// stallTime bounds how long a connection waits for the place of a stream, and for the
	// rest of a header.
	stallTime = 10 * time.Second
	// unreadGrace is how long a write takes at least when the client does not read.
	unreadGrace = 10 * time.Millisecond
	// unreadTime bounds how long a client may read nothing of what is written to it.
	unreadTime = 30 * time.Second
)

var (
	errStalled = errors.New("too many streams are open on all connections")
	errLarge   = errors.New("a connection has two requests with large headers at once")
)

// frameConn is what net/http reads the requests of HTTP/2 from. It counts the streams of
// the connection among those of all connections, bounds their headers, and reads nothing
// while the client does not read what is written to it.
//
// net/http takes it for a connection without TLS: one of TLS has to be a tls.Conn.
type frameConn struct {
	net.Conn // *tls.Conn
	below    *conn

	// These belong to Read, which net/http calls from one goroutine.
	in     frames
	block  *block
	rest   []byte // was read and not yet given to net/http
	newest uint32 // stream of the client
	asks   bool   // the current frame opens a stream that has no place yet
	timed  bool   // a deadline is set for the rest of a header

	writing sync.Mutex   // Read waits while it is held for long
	since   atomic.Int64 // when a Write began, in nanoseconds since 1970; 0 for none
	out     frames       // guarded by writing

	mu      sync.Mutex
	streams map[uint32]bool // open ones: true if the header is large
	large   int
	places  int           // of open streams, and of those that were reset just now
	done    chan struct{} // closed by Close
	closed  bool
}

func newFrameConn(secure net.Conn, below *conn) *frameConn {
	return &frameConn{Conn: secure, below: below, in: frames{skip: prefaceBytes}, block: newBlock(),
		streams: map[uint32]bool{}, done: make(chan struct{})}
}

// NetConn returns the connection below.
func (c *frameConn) NetConn() net.Conn { return c.below }

// Read reads a piece of the frames, up to a stream that waits for its place.
func (c *frameConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if c.asks {
		if err := c.open(c.in.current.stream); err != nil {
			return 0, err
		}
		c.asks = false
	}
	n := copy(p, c.rest)
	if c.rest = c.rest[n:]; n == 0 {
		c.rest = nil
		if since := c.since.Load(); since != 0 && time.Now().UnixNano()-since > int64(unreadGrace) {
			c.writing.Lock()
			c.writing.Unlock() //nolint:staticcheck // only to wait until the client reads
		}
		var err error
		if n, err = c.Conn.Read(p); n <= 0 {
			return n, err //nolint:wrapcheck // net/http compares it
		}
	}
	used, err := c.follow(p[:n])
	if err != nil {
		return 0, err
	}
	if used < n {
		c.rest = append(append([]byte(nil), p[used:n]...), c.rest...)
	}
	if c.block.open != c.timed {
		c.timed = c.block.open
		var end time.Time
		if c.timed {
			end = time.Now().Add(stallTime)
		}
		_ = c.SetReadDeadline(end) // a connection that is closed fails in Read
	}
	return used, nil
}

// follow follows frames of the client and returns how many bytes net/http gets.
func (c *frameConn) follow(p []byte) (used int, err error) {
	for used < len(p) && !c.asks {
		n, begun := c.in.next(p[used:])
		f := c.in.current
		switch header := f.kind == frameHeaders || f.kind == frameContinuation; {
		case begun:
			err = c.begin(f)
		case header && c.block.open:
			err = c.block.payload(p[used : used+n])
		}
		used += n
		if err == nil && c.block.open && c.in.skip == 0 && c.in.have == 0 && f.flags&flagEndHeaders != 0 {
			err = c.endHeader(f.stream)
		}
		if err != nil {
			return 0, err
		}
	}
	return used, nil
}

// begin takes the header of a frame of the client.
func (c *frameConn) begin(f frame) error {
	switch f.kind {
	case frameHeaders, frameContinuation:
		if err := c.block.begin(f); err != nil {
			return err
		}
		if f.kind == frameHeaders && f.stream > c.newest { // otherwise a trailer
			c.newest, c.asks = f.stream, true
		}
		return nil
	case frameReset:
		c.release(f.stream, resetTime)
	}
	if c.block.open {
		return errOutOfOrder
	}
	return nil
}

// endHeader checks a header whose last byte is not yet given to net/http.
func (c *frameConn) endHeader(stream uint32) error {
	large, err := c.block.end()
	if err != nil || !large {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.large > 0 {
		return errLarge
	}
	c.large++
	if _, open := c.streams[stream]; open {
		c.streams[stream] = true
	}
	return nil
}

// open takes the place of a stream. A connection without streams always has one.
func (c *frameConn) open(stream uint32) error {
	c.mu.Lock()
	first := c.places == 0
	c.mu.Unlock()
	if !c.below.limiter.streams.take(first, c.done) {
		return errStalled
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		c.below.limiter.streams.give(1)
		return net.ErrClosed
	}
	c.places++
	c.streams[stream] = false
	return nil
}

// release gives the place of a stream back after some time.
func (c *frameConn) release(stream uint32, after time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	large, open := c.streams[stream]
	if !open {
		return
	}
	delete(c.streams, stream)
	give := func() {
		if c.closed {
			return // Close gives all places back
		}
		if large {
			c.large--
		}
		c.places--
		c.below.limiter.streams.give(1)
	}
	if after == 0 {
		give()
		return
	}
	var later func()
	later = func() {
		running := c.below.limiter.running(c.below)
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.closed && running > len(c.streams) { // handlers of streams that were reset
			time.AfterFunc(after, later)
			return
		}
		give()
	}
	time.AfterFunc(after, later)
}

// Write writes frames of the server. Those that end a stream give its place back, before
// the client can see them and ask for the next one.
func (c *frameConn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	for rest := p; len(rest) > 0; {
		used, begun := c.out.next(rest)
		rest = rest[used:]
		if !begun {
			continue
		}
		switch f := c.out.current; f.kind {
		case frameReset:
			c.release(f.stream, 0)
		case frameData, frameHeaders:
			if f.flags&flagEndStream != 0 {
				c.release(f.stream, 0)
			}
		}
	}
	c.since.Store(time.Now().UnixNano())
	defer c.since.Store(0)
	return c.Conn.Write(p) //nolint:wrapcheck // net/http compares it
}

// Close closes the connection. The places of its streams are free once their handlers
// had time to end.
func (c *frameConn) Close() error {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.done)
		if n := c.places; n > 0 {
			time.AfterFunc(resetTime, func() { c.below.limiter.streams.give(n) })
		}
	}
	c.mu.Unlock()
	return c.Conn.Close() //nolint:wrapcheck // net/http ignores it
}

// streams counts the streams of all connections of HTTP/2.
type streams struct {
	most int

	mu      sync.Mutex
	open    int
	waiting list.List // of chan struct{}, closed when a place is taken for it
}

// take takes a place: at once if always is true, else when fewer than most are taken. It
// reports false after stallTime, and when done is closed.
func (s *streams) take(always bool, done <-chan struct{}) bool {
	s.mu.Lock()
	if always || s.open < s.most {
		s.open++
		s.mu.Unlock()
		return true
	}
	ready := make(chan struct{})
	at := s.waiting.PushBack(ready)
	s.mu.Unlock()
	late := time.NewTimer(stallTime)
	defer late.Stop()
	select {
	case <-ready:
		return true
	case <-late.C:
	case <-done:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-ready: // meanwhile
		return true
	default:
		s.waiting.Remove(at)
		return false
	}
}

// give gives places back.
func (s *streams) give(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open -= n
	for s.open < s.most && s.waiting.Len() > 0 {
		s.open++
		close(s.waiting.Remove(s.waiting.Front()).(chan struct{}))
	}
}
