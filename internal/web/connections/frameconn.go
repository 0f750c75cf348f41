package connections

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// unreadGrace is the minimum duration of a write after which the client counts as
	// not reading.
	unreadGrace = 10 * time.Millisecond
	// unreadTimeout bounds the time in which a client reads nothing that is written to it.
	unreadTimeout = 30 * time.Second
)

// frameConn is the connection that net/http reads HTTP/2 requests from. It counts the
// streams of the connection among those of all connections and bounds their headers. It
// reads nothing while the client does not read what is written to it.
//
// net/http treats a frameConn as a connection without TLS, because net/http accepts TLS
// only from a tls.Conn.
type frameConn struct {
	net.Conn // *tls.Conn
	below    *conn

	// Only used by Read, which net/http calls from one goroutine.
	started      bool // the preface was read
	in           frames
	block        *block
	trailer      bool   // the block belongs to a stream that has, or had, a request
	word         word   // of a PRIORITY frame, the parent of its stream; also an identifier in SETTINGS
	rest         []byte // read, but not yet returned to net/http
	newest       uint32 // newest stream of the client
	needsPlace   bool   // the current frame opens a stream that has no place yet
	owedPortions int    // portions of work that the current frame waits for
	timed        bool   // a deadline is set for the rest of a header
	failed       error  // returned by all further Reads

	// isLeaving is true after either side sent GOAWAY: net/http ignores further streams.
	isLeaving atomic.Bool

	writing sync.Mutex   // Read waits while it is held for long
	since   atomic.Int64 // start of the running Write, in ns since 1970; 0 for none
	out     frames       // guarded by writing
	last    uint32       // stream whose last frames are not completely in out, or 0; guarded by writing

	mu          sync.Mutex
	streams     map[uint32]stream // open streams
	hasOpened   bool              // a stream was opened
	large       int
	places      int           // of open streams, and of streams that were reset recently
	work        surplus       // that the client causes without answered requests
	streamEnded chan struct{} // receives a value when a stream ends
	done        chan struct{} // closed with the connection
	closed      bool
	closer      *time.Timer // closes the connection; set when Close was called before all answers were written
}

func newFrameConn(secure net.Conn, below *conn) *frameConn {
	below.limiter.surplus.connections.Add(1)
	return &frameConn{Conn: secure, below: below, in: frames{skip: prefaceBytes}, block: newBlock(),
		streams: map[uint32]stream{}, streamEnded: make(chan struct{}, 1), done: make(chan struct{})}
}

// NetConn returns the connection below TLS.
func (c *frameConn) NetConn() net.Conn { return c.below }

// Read returns a part of the frames, up to a frame that must wait for a place or a
// turn.
func (c *frameConn) Read(p []byte) (int, error) {
	if len(p) == 0 || c.failed != nil {
		return 0, c.failed
	}
	if c.owedPortions > 0 {
		if err := c.below.limiter.surplus.spend(c.below.address, c.owedPortions, c.done); err != nil {
			return 0, err
		}
		c.owedPortions = 0
		c.setDeadline() // the client did not cause this wait
	}
	if c.needsPlace {
		if err := c.open(c.in.current.stream); err != nil {
			return 0, err
		}
		c.needsPlace = false
		c.setDeadline() // the client did not cause this wait either
	}
	n := copy(p, c.rest)
	if c.rest = c.rest[n:]; n == 0 {
		c.rest = nil
		if since := c.since.Load(); since != 0 && time.Now().UnixNano()-since > int64(unreadGrace) {
			c.writing.Lock()
			c.writing.Unlock() //nolint:staticcheck // only to wait until the client reads
		}
		var err error
		if n, err = c.receive(p); n <= 0 {
			return n, err
		}
	}
	used, err := c.follow(p[:n])
	if err != nil {
		c.failed = err
		return 0, err
	}
	if used < n {
		c.rest = append(append([]byte(nil), p[used:n]...), c.rest...)
	}
	if c.block.open != c.timed {
		c.setDeadline()
	}
	return used, nil
}

// receive reads from the connection below. It reads the complete preface first:
// net/http treats a connection without one as HTTP/1, whose header lines are not
// counted here.
func (c *frameConn) receive(p []byte) (int, error) {
	if c.started {
		return c.Conn.Read(p) //nolint:wrapcheck // net/http compares it
	}
	start := make([]byte, prefaceBytes)
	if _, c.failed = io.ReadFull(c.Conn, start); c.failed == nil && string(start) != preface {
		c.failed = errNoPreface
	}
	if c.failed != nil {
		return 0, c.failed
	}
	c.started = true
	n := copy(p, start)
	c.rest = start[n:]
	return n, nil
}

// setDeadline sets the time limit for the rest of a header, starting now.
func (c *frameConn) setDeadline() {
	c.timed = c.block.open
	var end time.Time
	if c.timed {
		end = time.Now().Add(stallTimeout)
	}
	_ = c.SetReadDeadline(end) // a closed connection fails in Read
}

// follow consumes frames of the client and returns the number of bytes for net/http.
func (c *frameConn) follow(p []byte) (used int, err error) {
	for used < len(p) && !c.needsPlace && c.owedPortions == 0 {
		n, started := c.in.next(p[used:])
		f := c.in.current
		switch header := f.kind == frameHeaders || f.kind == frameContinuation; {
		case started:
			err = c.begin(f)
		case header && c.block.open:
			err = c.block.payload(p[used : used+n])
		case f.kind == framePriority && c.word.take(p[used:used+n]):
			// net/http resets a stream that depends on itself, even before its request.
			if parent := c.word.value &^ (1 << 31); parent == f.stream && parent > c.newest {
				err = errIdle
			}
		case f.kind == frameSettings && c.newest > 0 && c.word.setting(p[used:used+n], f.length-c.in.skip-n):
			// net/http would set the size while another goroutine may encode the header
			// of an answer with the same table, and panic.
			err = errTableSize
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

// begin consumes the header of a frame of the client.
func (c *frameConn) begin(f frame) error {
	switch f.kind {
	case frameHeaders, frameContinuation:
		if err := c.block.begin(f); err != nil {
			return err
		}
		if f.kind == frameHeaders {
			c.trailer = f.stream <= c.newest
			if !c.trailer {
				if f.length == 0 && f.flags&flagEndHeaders != 0 {
					return errEmpty // net/http would process the frame before its stream has a place
				}
				c.newest, c.needsPlace = f.stream, !c.isLeaving.Load()
				c.count(func(s *surplus, _ time.Time) { s.earn(requestFrames * earnBytes) })
			}
		}
		if f.kind == frameContinuation || c.trailer {
			c.countIdleFrame(f)
		}
		if f.kind == frameHeaders { // only HEADERS frames wait
			c.owe()
		}
		return nil
	case framePriority:
		c.word = word{}
		c.countIdleFrame(f)
	case frameWindowUpdate:
		if f.stream > c.newest {
			return errIdle // net/http resets the stream if the increment is 0
		}
		c.countIdleFrame(f)
	case frameReset:
		if !c.reset(f.stream) {
			c.countIdleFrame(f)
		}
	case frameData:
		c.countDataFrame(f)
	case framePing, frameSettings:
		if f.flags&flagAck == 0 {
			c.countAnsweredFrame()
		} else {
			c.countIdleFrame(f)
		}
	case frameGoAway:
		c.isLeaving.Store(true)
		c.countIdleFrame(f)
	default:
		c.countIdleFrame(f)
	}
	if c.block.open {
		return errOutOfOrder
	}
	c.owe()
	return nil
}

// count updates the count of work.
func (c *frameConn) count(change func(s *surplus, now time.Time)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.work, time.Now())
}

// countAnsweredFrame counts a frame that net/http answers immediately.
func (c *frameConn) countAnsweredFrame() {
	c.count(func(s *surplus, now time.Time) { s.add(answerWork, now) })
}

// countIdleFrame counts a frame without progress.
func (c *frameConn) countIdleFrame(f frame) {
	c.count(func(s *surplus, now time.Time) { s.frame(f.length, now) })
}

// countDataFrame counts a frame of a body. The end of a body is progress, because a frame after
// it resets the stream.
func (c *frameConn) countDataFrame(f frame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	st, open := c.streams[f.stream]
	if open && !st.body {
		st.body = true
		c.streams[f.stream] = st
	}
	if !open || f.flags&flagEndStream == 0 {
		c.work.body(f.length, f.flags&flagPadded != 0, time.Now())
	}
}

// owe makes the current frame wait if the client causes too much work.
func (c *frameConn) owe() {
	c.count(func(s *surplus, now time.Time) {
		s.parts = c.below.limiter.surplus.parts()
		c.owedPortions = s.due(now)
	})
}
