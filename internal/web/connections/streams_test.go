package connections

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// http2Client is a connection that sends frames.
type http2Client struct {
	*client
	framer *http2.Framer
	block  bytes.Buffer
	hpack  *hpack.Encoder
	next   uint32
}

func (s *testServer) dialHTTP2(t *testing.T, settings ...http2.Setting) *http2Client {
	t.Helper()
	plain := s.dial(t)
	secure := tls.Client(plain.Conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	c := &http2Client{client: &client{Conn: secure, t: t}, next: 1}
	c.framer = http2.NewFramer(secure, secure)
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.hpack = hpack.NewEncoder(&c.block)
	io.WriteString(c, http2.ClientPreface)
	if err := c.framer.WriteSettings(settings...); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *http2Client) encode(path string, fields int) []byte {
	c.block.Reset()
	for _, f := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "localhost"}, {":path", path}} {
		c.hpack.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	for i := range fields {
		c.hpack.WriteField(hpack.HeaderField{Name: "x" + strconv.Itoa(i)})
	}
	return c.block.Bytes()
}

func (c *http2Client) request(path string, fields int) (stream uint32) {
	stream = c.next
	c.next += 2
	// Reading returns the same error.
	_ = c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: c.encode(path, fields), EndStream: true, EndHeaders: true})
	return stream
}

// reset sends a request without its body, and resets it before the answer.
func (c *http2Client) reset() {
	c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: c.next, BlockFragment: c.encode("/read", 0), EndHeaders: true})
	c.framer.WriteRSTStream(c.next, http2.ErrCodeCancel)
	c.next += 2
}

// status reads up to the header of an answer and returns its status.
func (c *http2Client) status(stream uint32) string {
	c.t.Helper()
	for {
		f, err := c.framer.ReadFrame()
		if err != nil {
			c.t.Fatalf("wait for an answer on stream %d: %v", stream, err)
		}
		if h, ok := f.(*http2.MetaHeadersFrame); ok && h.StreamID == stream {
			return h.PseudoValue("status")
		}
	}
}

// ended reads until the server has closed the connection.
func (c *http2Client) ended() {
	c.t.Helper()
	for {
		if _, err := c.framer.ReadFrame(); err != nil {
			if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
				c.t.Fatal("the connection is still open")
			}
			return
		}
	}
}

// openStreams returns the number of taken places.
func (s *testServer) openStreams() int {
	s.limiter.streams.mu.Lock()
	defer s.limiter.streams.mu.Unlock()
	return s.limiter.streams.open
}

func (s *testServer) haveStreams(t *testing.T, n int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); s.openStreams() != n; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d streams have places, want %d", s.openStreams(), n)
		}
	}
}

// The limits of a request header apply before its end. A second large header of a
// connection is refused.
func TestFrames(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{Total: 10}, true)
	unread := []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 0}, {ID: http2.SettingHeaderTableSize, Val: 0}}
	for name, send := range map[string]func(*http2Client){
		"frames without end": func(c *http2Client) {
			c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.encode("/", 0)})
			for range maxBlockFrames {
				c.framer.WriteContinuation(1, false, nil)
			}
		},
		"a frame within a header": func(c *http2Client) {
			c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.encode("/", 0)})
			c.framer.WritePing(false, [8]byte{})
		},
		"two headers with many fields": func(c *http2Client) {
			c.request("/", maxLines+1)
			c.request("/", maxLines+1)
		},
		"a malformed header": func(c *http2Client) {
			c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x80}, EndHeaders: true})
		},
		"an empty header": func(c *http2Client) {
			c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true})
		},
		"padding longer than the frame": func(c *http2Client) {
			c.framer.WriteRawFrame(http2.FrameHeaders, flagPadded, 1, []byte{9, 0x82})
			c.framer.WriteContinuation(1, true, c.encode("/", 0))
		},
		"a request on the stream of a malformed one": func(c *http2Client) {
			c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: malformedHeader, EndHeaders: true})
			c.request("/", 0)
		},
		"a request on an earlier stream than that of a malformed one": func(c *http2Client) {
			c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1<<31 - 1, BlockFragment: malformedHeader, EndStream: true, EndHeaders: true})
			c.request("/", 0)
		},
		"a window of a stream before its request": func(c *http2Client) {
			c.framer.AllowIllegalWrites = true
			c.framer.WriteWindowUpdate(1, 0)
		},
		"a table size behind a request": func(c *http2Client) {
			c.request("/", 0)
			c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 9}, http2.Setting{ID: http2.SettingHeaderTableSize, Val: 4096})
		},
		"a stream that depends on itself before its request": func(c *http2Client) {
			c.framer.WritePriority(1, http2.PriorityParam{StreamDep: 1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := s.dialHTTP2(t, unread...)
			send(c)
			c.ended()
		})
	}
	s.haveStreams(t, 0)
	// A header may have padding, a priority and several frames.
	c := s.dialHTTP2(t)
	block := c.encode("/", 20)
	c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:7], EndStream: true, PadLength: 9,
		Priority: http2.PriorityParam{Weight: 3}})
	c.framer.WriteContinuation(1, false, block[7:8])
	c.framer.WriteContinuation(1, true, block[8:])
	if got := c.status(1); got != "200" {
		t.Errorf("a header in three frames is answered %s", got)
	}
	c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: settingTableSize<<16 | settingTableSize})
	// A malformed header ends only its stream, and so does a stream that depends on
	// itself.
	c.framer.WritePriority(9, http2.PriorityParam{StreamDep: 7})
	c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: malformedHeader, EndStream: true, EndHeaders: true})
	c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 5, BlockFragment: c.encode("/read", 0), EndHeaders: true})
	c.framer.WritePriority(5, http2.PriorityParam{StreamDep: 5})
	c.next = 7
	if got := c.status(c.request("/", 0)); got != "200" {
		t.Errorf("a request after a malformed one is answered %s", got)
	}
	s.haveStreams(t, 0)
}

// malformedHeader is a header that net/http refuses: it has the pseudo-header field ":a".
var malformedHeader = []byte{0, 2, ':', 'a', 1, 'b'}

// A client that negotiated HTTP/2 cannot send HTTP/1, because the lines of its headers
// would not be counted.
func TestNoHTTP1InHTTP2(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{Total: 10}, true)
	const request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	for _, first := range []string{request, "PRI * HTTP/2.0\r\n\r\n", strings.Repeat("x", prefaceBytes)} {
		c := tls.Client(s.dial(t).Conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		io.WriteString(c, first)
		io.WriteString(c, request)
		answer, _ := io.ReadAll(c) // the server may close it before it has read all
		if strings.Contains(string(answer), " 200 ") {
			t.Errorf("%q is answered %q", first, answer)
		}
	}
	if n := s.limiter.Stats().Busy; n != 0 {
		t.Errorf("%d connections are busy", n)
	}
}

// A frame for an ended stream is work, because it is answered with a reset.
func TestAnswersOfEndedStreams(t *testing.T) {
	t.Parallel()
	wire := append([]byte(preface), wireOf(func(f *http2.Framer) { f.WriteWindowUpdate(0, 1) })...)
	inner := &wireConn{Reader: bytes.NewReader(wire), closed: make(chan struct{})}
	c := newFrameConn(inner, &conn{Conn: inner, limiter: New(Options{Total: 10})})
	defer c.Close()
	reset := wireOf(func(f *http2.Framer) { f.WriteRSTStream(1, http2.ErrCodeStreamClosed) })
	for range (freeWork + portion) / answerWork {
		if _, err := c.Write(reset); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.ReadFull(c, make([]byte, prefaceBytes+frameHeaderBytes)); err != nil || c.owedPortions == 0 {
		t.Errorf("a client does not wait for many answers, %v", err)
	}
}

// A connection always gets one stream. Further streams wait while the limit is reached,
// and are served after others end.
func TestStreams(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{Total: 1000}, true)
	s.limiter.streams.max, s.limiter.streams.wait = 3, time.Minute
	busy, other := s.dialHTTP2(t), s.dialHTTP2(t)
	for range 3 {
		busy.request("/hold", 0)
		<-s.holding
	}
	if got := other.status(other.request("/", 0)); got != "200" {
		t.Errorf("the only stream of a connection is answered %s", got)
	}
	further := busy.request("/", 0)
	s.haveStreams(t, 3)
	if n := len(s.holding); n != 0 {
		t.Errorf("%d further requests are served", n)
	}
	close(s.release)
	if got := busy.status(further); got != "200" {
		t.Errorf("a stream that waited is answered %s", got)
	}
	s.haveStreams(t, 0)
}

// A reset stream keeps its place for resetTime, and so do the streams of a closed
// connection.
func TestResets(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{Total: 1000}, true)
	c := s.dialHTTP2(t)
	started := time.Now()
	for range 10 {
		c.reset()
	}
	c.request("/hold", 0)
	<-s.holding
	if n := s.openStreams(); n != 11 && time.Since(started) < resetTime {
		t.Errorf("%d streams have places, want 11", n)
	}
	s.haveStreams(t, 1)
	c.Close()
	s.haveStreams(t, 0)
}

// A stream that gets no place in time is refused. Its connection and the other streams
// of it stay open.
func TestLateStreams(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{Total: 1000}, true)
	s.limiter.streams.max, s.limiter.streams.wait = 2, time.Millisecond
	holder, other := s.dialHTTP2(t), s.dialHTTP2(t)
	for range 2 {
		holder.request("/hold", 0)
		<-s.holding
	}
	first := other.request("/hold", 0)
	<-s.holding
	for range 5 {
		if got := other.status(other.request("/", 0)); got != "503" {
			t.Errorf("a stream without a place is answered %s", got)
		}
	}
	if got := other.status(other.request("/healthz", 0)); got != "200" {
		t.Errorf("health is answered %s", got)
	}
	var last uint32
	for range 20 { // at once
		last = other.request("/", 0)
	}
	if got := other.status(last); got != "503" {
		t.Errorf("the last of many streams is answered %s", got)
	}
	s.haveStreams(t, 3)
	close(s.release)
	if got := other.status(first); got != "200" {
		t.Errorf("the first stream is answered %s", got)
	}
	s.haveStreams(t, 0)
}

// Streams of many connections that are late at the same time are refused one after the
// other. Each still takes a place that is released meanwhile.
func TestRefusals(t *testing.T) {
	t.Parallel()
	const late = 8
	s := &streams{wait: time.Millisecond}
	started := time.Now()
	results := make(chan bool)
	for range late {
		go func() { results <- s.take(false, nil) }()
	}
	for range late {
		if <-results {
			t.Fatal("a stream has a place that there is not")
		}
	}
	if took := time.Since(started); took < (late-1)*refuseTime {
		t.Errorf("%d streams are refused within %v", late, took)
	}
	s.mu.Lock()
	s.refused = time.Now().Add(time.Hour) // others are refused before
	s.mu.Unlock()
	go func() { results <- s.take(false, nil) }()
	for isLate := false; !isLate; time.Sleep(s.wait) {
		s.mu.Lock()
		front := s.waiting.Front()
		isLate = front != nil && time.Since(front.Value.(waiter).since) >= s.wait
		s.mu.Unlock()
	}
	s.mu.Lock()
	s.max = 1
	s.mu.Unlock()
	s.release(0)
	if !<-results {
		t.Error("a late stream is refused although there is a place")
	}
	closed := make(chan struct{})
	close(closed)
	if s.take(false, closed) || s.waiting.Len() != 0 {
		t.Errorf("a stream whose connection is closed waits, and so do %d", s.waiting.Len())
	}
}

// A server that shuts down writes its answers completely: net/http closes the HTTP/2
// connections that had a request. The client can still read the written data.
func TestShutdownAfterHandler(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{Total: 10}, true)
	c, unused := s.dialHTTP2(t), s.dialHTTP2(t)
	late := c.request("/late", 0)
	<-s.holding
	s.limiter.closeIdle()
	close(s.release)
	if got := c.status(late); got != "200" {
		t.Errorf("the answer is %s", got)
	}
	s.haveStreams(t, 0)
	unused.ended()
	s.limiter.closeIdle()
	if got := c.status(c.request("/", 0)); got != "200" {
		t.Errorf("a connection that had a request answers %s", got)
	}
	go s.server.Shutdown(t.Context())
	c.ended()
}

// During a shutdown, net/http may close a connection after its last handler returned
// but before the end of the answer is written. The connection is closed after that end.
func TestCloseAfterHandler(t *testing.T) {
	t.Parallel()
	var end bytes.Buffer
	http2.NewFramer(&end, nil).WriteData(1, true, []byte("end"))
	open := func(t *testing.T) (c *frameConn, client net.Conn) {
		mine, theirs := net.Pipe() // has no buffer
		t.Cleanup(func() { theirs.Close() })
		l := New(Options{Total: 1})
		c = newFrameConn(mine, &conn{Conn: mine, limiter: l})
		t.Cleanup(func() { c.cut() })
		c.open(1)
		l.shutdown.Store(true)
		return c, theirs
	}
	t.Run("before the end is written", func(t *testing.T) {
		t.Parallel()
		c, client := open(t)
		c.Close()
		go c.Write(end.Bytes())
		if got, err := io.ReadAll(client); err != nil || !bytes.Equal(got, end.Bytes()) {
			t.Errorf("the client gets %q, %v", got, err)
		}
	})
	t.Run("while the end is written", func(t *testing.T) {
		t.Parallel()
		c, client := open(t)
		go c.Write(end.Bytes())
		first := make([]byte, 1)
		if _, err := client.Read(first); err != nil {
			t.Fatal(err)
		}
		c.Close()
		if rest, err := io.ReadAll(client); err != nil || !bytes.Equal(rest, end.Bytes()[1:]) {
			t.Errorf("the client gets %q behind %q, %v", rest, first, err)
		}
	})
	t.Run("while half of the end is written", func(t *testing.T) {
		t.Parallel()
		c, client := open(t)
		half := end.Len() - 1
		go func() {
			c.Write(end.Bytes()[:half])
			c.Close() // net/http has the rest in its buffer
			c.Write(end.Bytes()[half:])
		}()
		if got, err := io.ReadAll(client); err != nil || !bytes.Equal(got, end.Bytes()) {
			t.Errorf("the client gets %q, %v", got, err)
		}
	})
	t.Run("while half of a header is written", func(t *testing.T) {
		t.Parallel()
		c, client := open(t)
		var want bytes.Buffer
		f := http2.NewFramer(&want, nil)
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte("x"), EndStream: true})
		half := want.Len()
		f.WriteContinuation(1, true, []byte("y"))
		go func() {
			c.Write(want.Bytes()[:half])
			c.Close()
			c.Write(want.Bytes()[half:])
		}()
		if got, err := io.ReadAll(client); err != nil || !bytes.Equal(got, want.Bytes()) {
			t.Errorf("the client gets %q, %v", got, err)
		}
	})
	t.Run("while the client asks for more", func(t *testing.T) {
		t.Parallel()
		c, _ := open(t)
		c.Close()
		if err := c.open(3); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a stream opens behind Close: %v", err)
		}
	})
	t.Run("while a handler runs", func(t *testing.T) {
		t.Parallel()
		c, client := open(t)
		c.below.busy = 1
		c.Close()
		if _, err := c.Write(end.Bytes()); err == nil {
			t.Error("the connection is open")
		}
		if got, err := io.ReadAll(client); err != nil || len(got) > 0 {
			t.Errorf("the client gets %q, %v", got, err)
		}
	})
	t.Run("without an end", func(t *testing.T) {
		t.Parallel()
		c, client := open(t)
		c.Close()
		c.Close() // net/http's connection does when it ends
		if got, err := io.ReadAll(client); err != nil || len(got) > 0 {
			t.Errorf("the client gets %q, %v", got, err)
		}
	})
}

// Streams that a client opens after its GOAWAY take no places: net/http ignores them.
func TestStreamsAfterGoAway(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{Total: 1000}, true)
	c := s.dialHTTP2(t)
	held := c.request("/hold", 0)
	<-s.holding
	c.framer.WriteGoAway(0, http2.ErrCodeNo, nil)
	for range 2 * maxStreams {
		c.request("/", 0)
	}
	c.framer.WritePing(false, [8]byte{})
	for acked := false; !acked; {
		f, err := c.framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		_, acked = f.(*http2.PingFrame)
	}
	if n := s.openStreams(); n != 1 {
		t.Errorf("%d streams have places, want 1", n)
	}
	close(s.release)
	if got := c.status(held); got != "200" {
		t.Errorf("the stream before it is answered %s", got)
	}
	s.haveStreams(t, 0)
}

// deadlineConn stores the deadline of its reads.
type deadlineConn struct {
	net.Conn
	at time.Time
}

func (c *deadlineConn) SetReadDeadline(at time.Time) error {
	c.at = at
	return nil
}

// The time for the rest of a header starts when its stream has a place, and ends with
// the header.
func TestHeaderTime(t *testing.T) {
	t.Parallel()
	var wire bytes.Buffer
	wire.WriteString(http2.ClientPreface)
	c := http2Client{framer: http2.NewFramer(&wire, nil)}
	c.hpack = hpack.NewEncoder(&c.block)
	c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.encode("/", 0), EndHeaders: true})
	l := New(Options{Total: 10})
	l.streams.max, l.streams.wait = 0, 5*time.Millisecond
	inner := &deadlineConn{Conn: &wireConn{Reader: &wire, closed: make(chan struct{})}}
	f := newFrameConn(inner, &conn{Conn: inner, limiter: l})
	defer f.Close()
	f.places = 1 // it has another stream
	if _, err := io.ReadFull(f, make([]byte, prefaceBytes+frameHeaderBytes)); err != nil {
		t.Fatal(err)
	}
	started := inner.at
	if _, err := f.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if waited := inner.at.Sub(started); waited < l.streams.wait {
		t.Errorf("the time for the rest of a header is extended by %v, and its stream waited %v", waited, l.streams.wait)
	}
	if _, err := io.ReadAll(f); err != nil || !inner.at.IsZero() {
		t.Errorf("behind a header reads have the deadline %v, %v", inner.at, err)
	}
}

// A connection has a limited number of places. It reads no further until one is
// released.
func TestPlacesOfConnection(t *testing.T) {
	t.Parallel()
	mine, theirs := net.Pipe()
	defer theirs.Close()
	l := New(Options{Total: 1000})
	c := newFrameConn(mine, &conn{Conn: mine, limiter: l})
	for i := range uint32(maxPlaces) {
		if err := c.open(2*i + 1); err != nil {
			t.Fatal(err)
		}
	}
	opened := make(chan error, 1)
	go func() { opened <- c.open(2*maxPlaces + 1) }()
	select {
	case err := <-opened:
		t.Fatalf("a connection has more places: %v", err)
	case <-time.After(5 * time.Millisecond): // it waits
	}
	c.end(1)
	if err := <-opened; err != nil {
		t.Error(err)
	}
	go func() { opened <- c.open(2*maxPlaces + 3) }()
	c.Close()
	if err := <-opened; !errors.Is(err, net.ErrClosed) {
		t.Errorf("a connection that is closed waits for a place: %v", err)
	}
	if n := l.streams.open; n != maxPlaces { // for resetTime
		t.Errorf("%d streams have places", n)
	}
}

// A connection whose client resets many streams takes turns with others that do. A
// connection with few resets does not wait.
func TestSurplus(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{Total: 1000}, true)
	s.limiter.surplus.next = time.Now().Add(time.Hour) // others have turns before
	few, many, pings := s.dialHTTP2(t), s.dialHTTP2(t), s.dialHTTP2(t)
	for range freeWork/resetWork + 10 {
		many.reset()
	}
	many.request("/hold", 0)
	for range freeWork/answerWork + 100 {
		pings.framer.WritePing(false, [8]byte{})
	}
	pings.request("/hold", 0)
	for range 10 {
		few.reset()
	}
	if got := few.status(few.request("/", 0)); got != "200" {
		t.Errorf("a client that resets few streams is answered %s", got)
	}
	if n := len(s.holding); n > 0 {
		t.Errorf("%d requests are served of clients that wait for their turns", n)
	}
	s.server.Close()
	s.haveStreams(t, 0)
}

// Work is free at first and at a rate. Portions of further work come one after the
// other.
func TestTurns(t *testing.T) {
	t.Parallel()
	var s surplus
	now := time.Now()
	s.add(freeWork, now)
	s.add(portion-1, now)
	if s.due(now) != 0 {
		t.Error("free work waits")
	}
	s.add(1, now)
	if s.due(now) != 1 || s.due(now) != 0 {
		t.Error("not one portion of work waits")
	}
	s.add(3*portion, now)
	if n := s.due(now); n != 3 {
		t.Errorf("%d portions of 3 wait", n)
	}
	later := now.Add(time.Second)
	s.add(freeRate, later)
	if s.due(later) != 0 {
		t.Error("work at the free rate waits")
	}
	s.add(freeWork, later)
	if later = later.Add(time.Hour); s.due(later) != 0 {
		t.Error("work waits an hour after it was done")
	}
	s.add(freeWork, later)
	if s.due(later) != 0 {
		t.Error("free work waits after an hour")
	}
	few := surplus{parts: 2}
	few.add(freeWork/2+portion, now)
	if few.due(now) != 1 {
		t.Error("a connection that has half of the free work has more")
	}
	if few.add(freeRate, now.Add(time.Second)); few.due(now.Add(time.Second)) != 0 || few.work != freeWork/2+freeRate/2 {
		t.Errorf("after a second at half the free rate %d is left", few.work)
	}
	var p turnQueue
	done := make(chan struct{})
	close(done)
	turns := 0
	for p.spend(netip.Prefix{}, 1, done) == nil {
		if turns++; turns > 100*portionBurst {
			t.Fatal("the turns have no end")
		}
	}
	if turns < portionBurst {
		t.Errorf("%d portions come at once", turns)
	}
	next := p.next
	if p.spend(netip.Prefix{}, 100, done) == nil || p.next != next {
		t.Errorf("connections that are closed take turns, until %v instead of %v", p.next, next)
	}
}

// Frames without progress are work: after some of them the client waits. Frames of
// clients that get answers or send bodies are free.
func TestIdleFrames(t *testing.T) {
	t.Parallel()
	const many = 3 * freeWork / frameWork
	times := func(n int, write func(*http2.Framer)) []byte {
		return bytes.Repeat(wireOf(write), n)
	}
	for name, write := range map[string]func(*http2.Framer){
		"window updates": func(f *http2.Framer) { f.WriteWindowUpdate(0, 1) },
		"priorities":     func(f *http2.Framer) { f.WritePriority(1, http2.PriorityParam{Weight: 1}) },
		"empty pieces":   func(f *http2.Framer) { f.WriteData(1, false, nil) },
		"padding":        func(f *http2.Framer) { f.WriteDataPadded(1, false, nil, make([]byte, 255)) },
		"ends of others": func(f *http2.Framer) { f.WriteData(9, true, nil) },
		"unknown frames": func(f *http2.Framer) { f.WriteRawFrame(0xfa, 0, 1, nil) },
		"ping answers":   func(f *http2.Framer) { f.WritePing(true, [8]byte{}) },
		"resets of none": func(f *http2.Framer) { f.WriteRSTStream(9, http2.ErrCodeCancel) },
		"settings known": func(f *http2.Framer) { f.WriteSettingsAck() },
		"goodbyes":       func(f *http2.Framer) { f.WriteGoAway(0, http2.ErrCodeNo, nil) },
		"divided headers": func(f *http2.Framer) {
			f.WriteRawFrame(frameHeaders, 0, 1, nil)
			f.WriteContinuation(1, true, []byte{0x40, 1, 'a', 1, 'b'})
		},
	} {
		if passed, waits := passedFrames(t, times(many, write), nil); !waits || passed < freeWork/frameWork/2 {
			t.Errorf("%s: %d pass, and the client waits: %v", name, passed, waits)
		}
	}
	// A client with net/http returns the window for each 4 KiB of an answer, others for
	// each frame.
	answer := wireOf(func(f *http2.Framer) { f.WriteData(1, false, make([]byte, 16<<10)) })
	updates := func(f *http2.Framer) {
		for range 4 {
			f.WriteWindowUpdate(0, 4<<10)
			f.WriteWindowUpdate(1, 4<<10)
		}
	}
	for name, wire := range map[string][]byte{
		"windows of answers": times(many, updates),
		"a body":             times(many, func(f *http2.Framer) { f.WriteData(1, false, make([]byte, 512)) }),
	} {
		if passed, waits := passedFrames(t, wire, answer); waits {
			t.Errorf("%s: the client waits behind %d frames", name, passed)
		}
	}
}

// Many connections share little more free work than a few have. When one is closed, the
// others get its part.
func TestFreeWorkOfManyConnections(t *testing.T) {
	t.Parallel()
	l := New(Options{Total: 1000})
	wire := []byte(preface + string(bytes.Repeat(wireOf(func(f *http2.Framer) { f.WriteRawFrame(0xfa, 0, 0, nil) }), 2*freeWork/frameWork)))
	list := make([]*frameConn, 4*fewConnections)
	for i := range list {
		inner := &wireConn{Reader: bytes.NewReader(wire), closed: make(chan struct{})}
		list[i] = newFrameConn(inner, &conn{Conn: inner, limiter: l})
	}
	passed, began := 0, time.Now()
	for _, c := range list {
		if _, err := io.ReadFull(c, make([]byte, prefaceBytes)); err != nil {
			t.Fatal(err)
		}
		for framer := http2.NewFramer(io.Discard, c); c.owedPortions == 0; passed++ {
			if _, err := framer.ReadFrame(); err != nil {
				t.Fatalf("after %d frames: %v", passed, err)
			}
		}
	}
	each := freeWork/4 + portion + int(time.Since(began)/freeEach) // some work is free in each second
	if least, most := len(list)*(freeWork/4)/frameWork, len(list)*each/frameWork; passed < least || passed > most {
		t.Errorf("%d connections send %d frames without a wait, not %d to %d", len(list), passed, least, most)
	}
	for _, c := range list {
		c.Close()
		c.Close() // counts once
	}
	if n := l.surplus.connections.Load(); n != 0 {
		t.Errorf("%d connections are counted that are closed", n)
	}
}

// passedFrames sends frames of a client after a request, and returns how many pass
// before the client waits. After every eighth frame the server sends a part of an
// answer.
func passedFrames(t *testing.T, wire, answer []byte) (passed int, waits bool) {
	t.Helper()
	request := wireOf(func(f *http2.Framer) { f.WriteRawFrame(frameHeaders, flagEndHeaders, 1, holding) })
	inner := &wireConn{Reader: io.MultiReader(strings.NewReader(preface), bytes.NewReader(request), bytes.NewReader(wire)), closed: make(chan struct{})}
	c := newFrameConn(inner, &conn{Conn: inner, limiter: New(Options{Total: 10})})
	defer c.Close()
	framer := http2.NewFramer(io.Discard, c)
	if _, err := io.ReadFull(c, make([]byte, prefaceBytes)); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := framer.ReadFrame(); errors.Is(err, io.EOF) {
			return passed, false
		} else if err != nil {
			t.Fatal(err)
		}
		if c.owedPortions > 0 || !c.below.limiter.surplus.next.IsZero() { // its first turn may have come
			return passed, true
		}
		if passed++; passed%8 == 0 && answer != nil {
			if _, err := c.Write(answer); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Frames are followed for any division of their bytes, and no byte is lost.
func TestDividedFrames(t *testing.T) {
	t.Parallel()
	var wire bytes.Buffer
	wire.WriteString(http2.ClientPreface)
	c := http2Client{framer: http2.NewFramer(&wire, nil)}
	c.hpack = hpack.NewEncoder(&c.block)
	c.framer.AllowIllegalWrites = true
	c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 9})
	block := append([]byte(nil), c.encode("/", 20)...)
	c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:9], PadLength: 3, Priority: http2.PriorityParam{Weight: 1}})
	c.framer.WriteContinuation(1, false, nil)
	c.framer.WriteContinuation(1, true, block[9:])
	c.framer.WriteRawFrame(0xfa, flagEndHeaders, 0, []byte("an unknown frame"))
	c.framer.WritePriority(7, http2.PriorityParam{Weight: 3})
	c.framer.WriteData(1, false, []byte("body"))
	c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0, 1, 'a', 1, 'b'}, EndStream: true, EndHeaders: true}) // a trailer
	c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: c.encode("/", 0), EndHeaders: true})
	c.framer.WriteRSTStream(3, http2.ErrCodeCancel)
	for size := 1; size <= wire.Len(); size++ {
		l := New(Options{Total: 10})
		inner := &wireConn{Reader: dividedReader{bytes.NewReader(wire.Bytes()), size}, closed: make(chan struct{})}
		f := newFrameConn(inner, &conn{Conn: inner, limiter: l})
		got, err := io.ReadAll(f)
		if err != nil || !bytes.Equal(got, wire.Bytes()) {
			t.Errorf("pieces of %d bytes: %d bytes of %d, %v", size, len(got), wire.Len(), err)
		}
		if len(f.streams) != 1 || f.places != 2 || f.newest != 3 || f.block.open {
			t.Errorf("pieces of %d bytes: streams %v, %d places", size, f.streams, f.places)
		}
		f.Close()
	}
}

// dividedReader reads a few bytes at a time.
type dividedReader struct {
	io.Reader
	size int
}

func (r dividedReader) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(len(p), r.size)]) }

// While a client reads nothing, nothing is read from it.
func TestUnreadAnswers(t *testing.T) {
	t.Parallel()
	mine, theirs := net.Pipe() // has no buffer
	defer theirs.Close()
	l := New(Options{Total: 1})
	c := newFrameConn(mine, &conn{limiter: l})
	defer c.Close()
	wrote := make(chan struct{})
	go func() {
		defer close(wrote)
		c.Write(make([]byte, frameHeaderBytes))
	}()
	first := make([]byte, 1)
	if _, err := theirs.Read(first); err != nil { // the rest of it is not read
		t.Fatal(err)
	}
	c.since.Store(1) // long ago
	read := make(chan struct{})
	go func() {
		defer close(read)
		c.Read(make([]byte, prefaceBytes))
	}()
	theirs.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
	if _, err := theirs.Write([]byte("PRI")); err == nil {
		t.Error("the server reads while the client does not")
	}
	io.ReadFull(theirs, make([]byte, frameHeaderBytes-1))
	<-wrote
	theirs.SetWriteDeadline(time.Now().Add(10 * time.Second))
	if _, err := theirs.Write([]byte("PRI")); err != nil {
		t.Errorf("the server does not read once the client does: %v", err)
	}
	io.WriteString(theirs, preface[len("PRI"):])
	<-read
}

// A connection without TLS cannot use HTTP/2, because its frames would not be counted.
func TestNoHTTP2WithoutTLS(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{Total: 10}, false)
	c := s.dial(t)
	io.WriteString(c, http2.ClientPreface)
	http2.NewFramer(c, nil).WriteSettings()
	answer, err := io.ReadAll(c.r)
	if !strings.HasPrefix(string(answer), "HTTP/1.1 ") || strings.Contains(string(answer), "\x00") {
		t.Errorf("the preface of HTTP/2 is answered %q, %v", answer, err)
	}
}
