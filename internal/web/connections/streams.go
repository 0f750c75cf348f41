package connections

import (
	"container/list"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// resetTime is how long a stream that is reset keeps its place, and as long again
	// while its handler may run.
	resetTime = time.Second
	// placeTime is how long a stream waits for its place at least. Then its request is
	// refused, if it is the only such stream of its connection.
	placeTime = time.Second
	// refuseTime is the time between two such refusals of all connections. The header of a
	// refused request is decoded, and the streams of many connections become late together.
	refuseTime = 4 * time.Millisecond
	// stallTime bounds how long a connection waits until its own streams end, and for the
	// rest of a header.
	stallTime = 10 * time.Second
	// maxPlaces bounds the streams of a connection that have places: open ones, and as
	// many that were reset.
	maxPlaces = 2 * maxStreams
	// unreadGrace is how long a write takes at least when the client does not read.
	unreadGrace = 10 * time.Millisecond
	// closeTime bounds how long the ends of answers are waited for during a shutdown.
	closeTime = 3 * time.Second
	// unreadTime bounds how long a client may read nothing of what is written to it.
	unreadTime = 30 * time.Second
)

var (
	errStalled = errors.New("the streams of a connection do not end")
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
	started bool // the preface was read
	in      frames
	block   *block
	trailer bool   // the block is of a stream that has, or had, a request
	word    word   // of a PRIORITY frame, the stream that its stream depends on; of SETTINGS
	rest    []byte // was read and not yet given to net/http
	newest  uint32 // stream of the client
	asks    bool   // the current frame opens a stream that has no place yet
	owes    int    // portions of work that the current frame waits for
	timed   bool   // a deadline is set for the rest of a header
	failed  error  // what Read returns from now on

	// leaving is true once either side has sent GOAWAY: net/http ignores further streams.
	leaving atomic.Bool

	writing sync.Mutex   // Read waits while it is held for long
	since   atomic.Int64 // when a Write started, in nanoseconds since 1970; 0 for none
	out     frames       // guarded by writing
	last    uint32       // stream whose end is only partly in out, or 0; guarded by writing

	mu      sync.Mutex
	streams map[uint32]stream // open ones
	opened  bool              // whether there was one
	large   int
	places  int           // of open streams, and of those that were reset just now
	work    surplus       // that the client causes without requests that are answered
	given   chan struct{} // gets a value when a stream ends
	done    chan struct{} // closed with the connection
	closed  bool
	closer  *time.Timer // closes the connection; nil until Close was called while answers are written
}

// stream is an open stream.
type stream struct {
	large bool // its header is
	late  bool // it waited for a place in vain and has none
	body  bool // the client sends one
	size  int  // of its header, as it is sent, in bytes
}

func newFrameConn(secure net.Conn, below *conn) *frameConn {
	below.limiter.surplus.connections.Add(1)
	return &frameConn{Conn: secure, below: below, in: frames{skip: prefaceBytes}, block: newBlock(),
		streams: map[uint32]stream{}, given: make(chan struct{}, 1), done: make(chan struct{})}
}

// NetConn returns the connection below.
func (c *frameConn) NetConn() net.Conn { return c.below }

// Read reads a piece of the frames, up to a stream that waits for its place.
func (c *frameConn) Read(p []byte) (int, error) {
	if len(p) == 0 || c.failed != nil {
		return 0, c.failed
	}
	if c.owes > 0 {
		if err := c.below.limiter.surplus.spend(c.below.address, c.owes, c.done); err != nil {
			return 0, err
		}
		c.owes = 0
		c.setDeadline() // the wait was not the client's
	}
	if c.asks {
		if err := c.open(c.in.current.stream); err != nil {
			return 0, err
		}
		c.asks = false
		c.setDeadline() // nor was this one
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

// receive reads from the connection below. It reads the whole preface first: net/http takes
// a connection without one for HTTP/1, whose header lines are not counted here.
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

// setDeadline bounds the time for the rest of a header, from now on.
func (c *frameConn) setDeadline() {
	c.timed = c.block.open
	var end time.Time
	if c.timed {
		end = time.Now().Add(stallTime)
	}
	_ = c.SetReadDeadline(end) // a connection that is closed fails in Read
}

// follow follows frames of the client and returns how many bytes net/http gets.
func (c *frameConn) follow(p []byte) (used int, err error) {
	for used < len(p) && !c.asks && c.owes == 0 {
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
			// net/http sets the size while it may encode the header of an answer with the
			// same table, and panics.
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

// begin takes the header of a frame of the client.
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
					return errEmpty // net/http would have all of it before its stream has a place
				}
				c.newest, c.asks = f.stream, !c.leaving.Load()
				c.count(func(s *surplus, _ time.Time) { s.earn(requestFrames * earnBytes) })
			}
		}
		if f.kind == frameContinuation || c.trailer {
			c.idle(f)
		}
		if f.kind == frameHeaders { // its other frames do not wait
			c.owe()
		}
		return nil
	case framePriority:
		c.word = word{}
		c.idle(f)
	case frameWindowUpdate:
		if f.stream > c.newest {
			return errIdle // net/http resets the stream if the increment is 0
		}
		c.idle(f)
	case frameReset:
		if !c.reset(f.stream) {
			c.idle(f)
		}
	case frameData:
		c.data(f)
	case framePing, frameSettings:
		if f.flags&flagAck == 0 {
			c.answer()
		} else {
			c.idle(f)
		}
	case frameGoAway:
		c.leaving.Store(true)
		c.idle(f)
	default:
		c.idle(f)
	}
	if c.block.open {
		return errOutOfOrder
	}
	c.owe()
	return nil
}

// count changes the count of work.
func (c *frameConn) count(change func(s *surplus, now time.Time)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.work, time.Now())
}

// answer counts a frame that is answered at once.
func (c *frameConn) answer() {
	c.count(func(s *surplus, now time.Time) { s.add(answerWork, now) })
}

// idle counts a frame without progress.
func (c *frameConn) idle(f frame) {
	c.count(func(s *surplus, now time.Time) { s.frame(f.length, now) })
}

// data counts a frame of a body. The end of one is progress: a frame behind it resets the
// stream.
func (c *frameConn) data(f frame) {
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
		c.owes = s.due(now)
	})
}

// endHeader checks a header whose last byte is not yet given to net/http. net/http opens a
// stream for a request even if a malformed one had the same stream, or a later one: such a
// stream would have no place.
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

// open takes the place of a stream. A connection without streams always has one.
// Of the streams that wait in vain, one at a time is refused by the Limiter. Behind Close,
// none opens: a server that shuts down does not wait for its handler.
func (c *frameConn) open(id uint32) error {
	if err := c.until(func() bool { return c.places < maxPlaces && c.closer == nil }); err != nil {
		return err
	}
	c.mu.Lock()
	first := c.places == 0
	c.mu.Unlock()
	var st stream
	if st.late = !c.below.limiter.streams.take(first, c.done); st.late {
		if err := c.until(func() bool { return !c.below.late.Load() }); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		if !st.late {
			c.below.limiter.streams.give(1)
		}
		return net.ErrClosed
	case st.late:
		c.below.late.Store(true)
	default:
		c.places++
	}
	c.streams[id], c.opened = st, true
	return nil
}

// until waits until a condition holds, which is called with mu held.
func (c *frameConn) until(ok func() bool) error {
	var late <-chan time.Time
	for {
		c.mu.Lock()
		holds := ok()
		c.mu.Unlock()
		if holds {
			return nil
		}
		if late == nil {
			timer := time.NewTimer(stallTime)
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-c.given:
		case <-late:
			return errStalled
		case <-c.done:
			return net.ErrClosed
		}
	}
}

// end gives the place of a stream back that the server has answered.
func (c *frameConn) end(id uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if st, open := c.streams[id]; open {
		delete(c.streams, id)
		c.give(st)
	}
}

// reset gives the place of a stream back that either side resets, once its handler had
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
		running := c.below.limiter.running(c.below)
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.closed && running > len(c.streams) { // handlers of streams that were reset
			time.AfterFunc(resetTime, later)
			return
		}
		c.give(st)
	}
	time.AfterFunc(resetTime, later)
	return true
}

// hadStream reports whether the client has opened a stream.
func (c *frameConn) hadStream() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.opened
}

// unwritten reports whether the end of an answer is not written yet: net/http writes it
// behind the handler. A stream ends before its end is written. The caller must hold mu.
func (c *frameConn) unwritten() bool { return len(c.streams) > 0 || c.since.Load() != 0 }

// give gives the place of a stream back. Close gives back those that are left. The caller
// must hold mu.
func (c *frameConn) give(st stream) {
	if c.closed {
		return
	}
	if st.large {
		c.large--
	}
	if st.late {
		c.below.late.Store(false)
	} else {
		c.places--
		c.below.limiter.streams.give(1)
	}
	select {
	case c.given <- struct{}{}:
	default: // has one
	}
}

// Write writes frames of the server. Those that end a stream give its place back, before
// the client can see them and ask for the next one.
func (c *frameConn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.since.Store(time.Now().UnixNano())
	defer c.wrote()
	for rest := p; len(rest) > 0; {
		used, started := c.out.next(rest)
		rest = rest[used:]
		f := c.out.current
		if started {
			c.sent(f)
		}
		// A frame, and a header of several, may be in more than one Write.
		if c.last != 0 && c.out.skip == 0 && (f.kind == frameData || f.flags&flagEndHeaders != 0) {
			c.end(c.last)
			c.last = 0
		}
	}
	return c.Conn.Write(p) //nolint:wrapcheck // net/http compares it
}

// sent takes the header of a frame of the server.
func (c *frameConn) sent(f frame) {
	switch f.kind {
	case frameReset:
		if !c.reset(f.stream) { // the answer to a frame for a stream that has ended
			c.answer()
		}
	case frameGoAway:
		c.leaving.Store(true)
	case frameData, frameHeaders:
		if f.kind == frameData {
			c.count(func(s *surplus, _ time.Time) { s.earn(f.length) })
		}
		if f.flags&flagEndStream != 0 {
			c.last = f.stream
		}
	}
}

// wrote ends a Write. It closes a connection that waits for the end of its last answer.
func (c *frameConn) wrote() {
	c.since.Store(0)
	c.mu.Lock()
	last := c.closer != nil && !c.unwritten()
	c.mu.Unlock()
	if last {
		_ = c.cut() // net/http has closed it
	}
}

// Close closes the connection. While the server shuts down, a connection whose handlers
// have ended is closed once their answers are written, after closeTime at the latest: the
// last handler ends before the end of its answer is written.
func (c *frameConn) Close() error {
	if c.below.limiter.shutdown.Load() && c.below.limiter.running(c.below) == 0 && c.closeLater() {
		return nil
	}
	return c.cut()
}

// closeLater reports whether the connection is closed once its answers are written.
func (c *frameConn) closeLater() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || !c.unwritten() {
		return false
	}
	if c.closer == nil {
		c.closer = time.AfterFunc(closeTime, func() { _ = c.cut() }) // the client has had its time
	}
	return true
}

// cut closes the connection at once.
func (c *frameConn) cut() error {
	c.leave()
	return c.Conn.Close() //nolint:wrapcheck // net/http ignores it
}

// leave ends what the connection waits for, before it is closed. The places of its streams
// are free once their handlers had time to end.
func (c *frameConn) leave() {
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
		time.AfterFunc(resetTime, func() { c.below.limiter.streams.give(n) })
	}
}

// streams counts the streams of all connections of HTTP/2.
type streams struct {
	most int
	wait time.Duration // for a place, at least before a stream is refused

	mu      sync.Mutex
	open    int
	waiting list.List // of waiter, the longest first
	refuser *time.Timer
	refused time.Time // when a stream was last refused
}

// waiter is a stream that waits for a place. It gets true when a place is taken for it, and
// false when it is refused.
type waiter struct {
	result chan bool
	since  time.Time
}

// take takes a place: at once if always is true, else when fewer than most are taken. It
// reports false when the stream is refused, and when done is closed.
func (s *streams) take(always bool, done <-chan struct{}) bool {
	s.mu.Lock()
	if always || s.open < s.most {
		s.open++
		s.mu.Unlock()
		return true
	}
	w := waiter{make(chan bool, 1), time.Now()}
	at := s.waiting.PushBack(w)
	if s.waiting.Len() == 1 {
		s.refuseNext()
	}
	s.mu.Unlock()
	select {
	case taken := <-w.result:
		return taken
	case <-done:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case taken := <-w.result: // meanwhile
		return taken
	default:
		s.waiting.Remove(at)
		return false
	}
}

// refuseNext sets the time at which the longest waiter is refused. The caller must hold mu.
func (s *streams) refuseNext() {
	at := s.waiting.Front().Value.(waiter).since.Add(s.wait)
	if next := s.refused.Add(refuseTime); at.Before(next) {
		at = next
	}
	if s.refuser == nil {
		s.refuser = time.AfterFunc(time.Until(at), s.refuse)
	} else {
		s.refuser.Reset(time.Until(at))
	}
}

// refuse refuses the longest waiter if it has waited for long enough.
func (s *streams) refuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if front := s.waiting.Front(); front != nil && now.Sub(s.refused) >= refuseTime {
		if w := front.Value.(waiter); now.Sub(w.since) >= s.wait {
			s.waiting.Remove(front)
			w.result <- false
			s.refused = now
		}
	}
	if s.waiting.Len() > 0 {
		s.refuseNext()
	}
}

// give gives places back.
func (s *streams) give(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open -= n
	for s.open < s.most && s.waiting.Len() > 0 {
		s.open++
		s.waiting.Remove(s.waiting.Front()).(waiter).result <- true
	}
}
