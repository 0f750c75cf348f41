package connections

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// wireConn is a connection whose client has sent some bytes, in pieces, and sends no
// more.
type wireConn struct {
	io.Reader
	closed chan struct{}
	once   sync.Once
}

func (c *wireConn) Write(p []byte) (int, error) { return len(p), nil }

func (c *wireConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

func (*wireConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (*wireConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (*wireConn) SetDeadline(time.Time) error      { return nil }
func (*wireConn) SetWriteDeadline(time.Time) error { return nil }

// SetReadDeadline lets other goroutines run. net/http calls it before it waits for the
// next request. If the read in the background, which net/http starts at the end of a
// body, has not ended by then, net/http alone closes the connection by a panic, "invalid
// concurrent Body.Read call", after a full-duplex request whose body was not read
// completely.
func (*wireConn) SetReadDeadline(time.Time) error {
	for range 10 {
		runtime.Gosched()
	}
	return nil
}

// wireListener accepts connections from a test.
type wireListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l wireListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l wireListener) Close() error {
	close(l.closed)
	return nil
}

func (wireListener) Addr() net.Addr { return &net.TCPAddr{} }

// wireServer stores the requests that its handler gets.
type wireServer struct {
	listener wireListener
	mu       sync.Mutex
	seen     []seenRequest
}

// seenRequest is a request as a handler gets it, and the part of the body that it
// reads.
type seenRequest struct {
	head, body string
	failed     bool // reading the body failed
}

// startWireServer serves with a Limiter or, for comparison, with net/http alone.
func startWireServer(t testing.TB, limited bool) *wireServer {
	s := &wireServer{listener: wireListener{make(chan net.Conn), make(chan struct{})}}
	server := &http.Server{Handler: http.HandlerFunc(s.serve), ErrorLog: log.New(io.Discard, "", 0), MaxHeaderBytes: 16 << 10, DisableGeneralOptionsHandler: true}
	var l net.Listener = s.listener
	if limited {
		limiter := New(Options{Total: 10, Health: func(*http.Request) bool { return false }, Refuse: func(http.ResponseWriter, *http.Request) {}})
		limiter.Bind(server)
		l = limiter.Listener(l)
	}
	go func() { _ = server.Serve(l) }() // ends with Close
	t.Cleanup(func() { server.Close() })
	return s
}

// serve stores a request. It reads all of its body, a part or nothing, before or after
// the answer starts.
func (s *wireServer) serve(w http.ResponseWriter, r *http.Request) {
	seen := seenRequest{head: fmt.Sprintf("%s %q %s %d", r.Method, r.RequestURI, r.Proto, len(r.Header))}
	read := func() {
		limit := int64(1 << 20)
		switch {
		case strings.HasSuffix(r.URL.Path, "0"):
			limit = 0
		case strings.HasSuffix(r.URL.Path, "3"):
			limit = 3
		}
		body, err := io.ReadAll(io.LimitReader(r.Body, limit))
		seen.body, seen.failed = string(body), err != nil
	}
	if strings.HasPrefix(r.URL.Path, "/late") {
		_ = http.NewResponseController(w).EnableFullDuplex()
		_, _ = io.WriteString(w, "ok")
		_ = http.NewResponseController(w).Flush()
		read()
	} else {
		read()
		_, _ = io.WriteString(w, "ok")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, seen)
}

// requests returns the requests that a server sees in bytes, which it gets in two
// pieces.
func (s *wireServer) requests(t testing.TB, wire []byte, at int) []seenRequest {
	t.Helper()
	c := &wireConn{Reader: io.MultiReader(bytes.NewReader(wire[:at]), bytes.NewReader(wire[at:])), closed: make(chan struct{})}
	s.listener.conns <- c
	select {
	case <-c.closed:
	case <-time.After(20 * time.Second):
		t.Fatalf("the connection stays open for %q", wire)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.seen
	s.seen = nil
	return seen
}

// FuzzRequests compares the requests that a server with a Limiter sees with those that
// net/http alone sees. The server may see fewer requests, because it closes connections
// earlier, but no others.
func FuzzRequests(f *testing.F) {
	for i, r := range requests {
		for _, path := range []string{"/", "/0", "/3", "/late", "/late0", "/late3"} {
			first := strings.Replace(r.wire, " / ", " "+path+" ", 1)
			f.Add([]byte(first+requests[0].wire+first+requests[3].wire), uint16(i*7))
		}
	}
	const chunked = "POST /0 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
	const smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
	for _, wire := range []string{
		chunked + "\r\n0\r\nA: b\n\n" + smuggled,
		chunked + "\r\n0\r\n\n00\n\r\n\r\n" + smuggled,
		chunked + "Content-Length: 5\r\n\r\n0\r\n\r\n" + smuggled,
		chunked + "Expect: 100-continue\r\n\r\n5\r\nhello\r\n0\r\n\r\n" + smuggled,
		chunked + "\r\n1;\n\r\nx\r\n0\r\n\r\n" + smuggled,
		strings.Replace(chunked, "1.1", "1.0", 1) + "Connection: keep-alive\r\nContent-Length: 3\r\n\r\n0\r\n\r\n" + smuggled,
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx\r\r\n\n" + smuggled,
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + smuggled,
		"OPTIONS * HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab" + smuggled,
		"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n" + smuggled,
	} {
		f.Add([]byte(wire), uint16(len(wire)/2))
	}
	alone, limited := startWireServer(f, false), startWireServer(f, true)
	f.Fuzz(func(t *testing.T, wire []byte, split uint16) {
		at := min(int(split), len(wire))
		want, got := alone.requests(t, wire, at), limited.requests(t, wire, at)
		// Despite SetReadDeadline, net/http alone may close a connection by the panic.
		for try := 0; len(got) > len(want) && try < 100; try++ {
			want = alone.requests(t, wire, at)
		}
		if len(got) > len(want) {
			t.Fatalf("requests %+v, net/http alone sees %+v", got, want)
		}
		for i, r := range got {
			cut := r.failed && i == len(got)-1 && r.head == want[i].head && strings.HasPrefix(want[i].body, r.body)
			if r != want[i] && !cut {
				t.Fatalf("request %d is %+v, net/http alone sees %+v", i, r, want[i])
			}
		}
	})
}
