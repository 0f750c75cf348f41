package connections

import (
	"bufio"
	"cmp"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// testServer serves GET / at once and GET /hold until release is closed.
type testServer struct {
	addr    string
	server  *http.Server
	limiter *Limiter
	release chan struct{}
	holding chan struct{} // receives for each request of /hold
	log     *strings.Builder
}

func serve(t *testing.T, opts Options, secure bool) *testServer {
	t.Helper()
	s := &testServer{release: make(chan struct{}), holding: make(chan struct{}, 100), log: &strings.Builder{}}
	opts.Name = "test"
	opts.Health = func(r *http.Request) bool { return r.URL.Path == "/healthz" }
	opts.Refuse = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }
	var mu sync.Mutex
	opts.Logger = slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return s.log.Write(p)
	}), nil))
	s.limiter = New(opts)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hold" {
			s.holding <- struct{}{}
			<-s.release
		}
		if r.URL.Path == "/read" {
			io.Copy(io.Discard, r.Body)
		}
		io.WriteString(w, "ok")
	}))
	s.limiter.Bind(server.Config)
	inner := server.Config.Handler
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inner.ServeHTTP(w, r)
		if r.URL.Path == "/late" { // as net/http may be late to write the answer
			s.holding <- struct{}{}
			<-s.release
		}
	})
	s.server = server.Config
	s.addr = server.Listener.Addr().String()
	if secure {
		config := &tls.Config{Certificates: []tls.Certificate{certificate()}, NextProtos: []string{"h2", "http/1.1"}}
		server.Config.TLSConfig = config
		server.Listener = s.limiter.SecureListener(server.Listener, config)
	} else {
		server.Listener = s.limiter.Listener(server.Listener)
	}
	server.Start()
	t.Cleanup(func() {
		select {
		case <-s.release:
		default:
			close(s.release)
		}
		server.CloseClientConnections()
		server.Close()
	})
	return s
}

// certificate returns a certificate that clients do not verify.
var certificate = sync.OnceValue(func() tls.Certificate {
	other := httptest.NewTLSServer(nil)
	defer other.Close()
	return other.TLS.Certificates[0]
})

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// client is one connection.
type client struct {
	net.Conn
	t *testing.T
	r *bufio.Reader
}

func (s *testServer) dial(t *testing.T) *client {
	t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(30 * time.Second))
	return &client{c, t, bufio.NewReader(c)}
}

func (c *client) send(path string) {
	c.t.Helper()
	if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) get(path string) int {
	c.t.Helper()
	c.send(path)
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// closed waits until the server has closed the connection.
func (c *client) closed() {
	c.t.Helper()
	if _, err := c.r.ReadByte(); err == nil {
		c.t.Fatal("the connection answers something")
	} else if e, ok := err.(net.Error); ok && e.Timeout() {
		c.t.Fatal("the connection is still open")
	}
}

// eventually waits until a condition on the counts is true.
func (s *testServer) eventually(t *testing.T, what string, ok func(Stats) bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(s.limiter.Stats()); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: %+v", what, s.limiter.Stats())
		}
	}
}

// At the limit, the connection that has been without a request for longest is closed,
// whether it had a request before, never had one, or has sent half of one.
func TestIdleConnectionIsClosed(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{Total: 3}, false)
	silent, half, used := s.dial(t), s.dial(t), s.dial(t)
	s.eventually(t, "three connections", func(st Stats) bool { return st.Open == 3 })
	io.WriteString(half, "GET / HT")
	if code := used.get("/"); code != http.StatusOK {
		t.Fatalf("a request is answered %d", code)
	}
	for _, oldest := range []*client{silent, half, used} {
		s.eventually(t, "no requests", func(st Stats) bool { return st.Busy == 0 }) // the answer came before the request ended
		if code := s.dial(t).get("/"); code != http.StatusOK {
			t.Fatalf("a new connection is answered %d", code)
		}
		oldest.closed()
	}
	if st := s.limiter.Stats(); st.Open != 3 || st.Closed != 3 || st.Refused != 0 {
		t.Errorf("the counts are %+v", st)
	}
	if n := strings.Count(s.log.String(), "too many connections"); n != 1 {
		t.Errorf("the log has %d lines about it:\n%s", n, s.log)
	}
}

// A connection with a request stays. A connection beyond the limit gets a refusal, or
// the server's health.
func TestBusyConnectionStays(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{Total: 2}, false)
	busy := []*client{s.dial(t), s.dial(t)}
	for _, c := range busy {
		c.send("/hold")
		<-s.holding
	}
	refused := s.dial(t)
	if code := refused.get("/"); code != http.StatusServiceUnavailable {
		t.Errorf("a connection beyond the bound is answered %d", code)
	}
	refused.closed()
	if code := s.dial(t).get("/healthz"); code != http.StatusOK {
		t.Errorf("health is answered %d", code)
	}
	// A request counts until the connection is closed after its answer.
	s.eventually(t, "two requests are left", func(st Stats) bool { return st.Busy == 2 && st.Closed == 0 && st.Refused == 2 })
	// Health is answered with any number of waiting connections.
	for range 2 * spareConnections {
		s.dial(t)
	}
	// All are accepted: a later one would replace an older one.
	s.eventually(t, "all spare connections are taken", func(st Stats) bool {
		return st.Open == 2+spareConnections && st.Refused == 2+2*spareConnections
	})
	time.Sleep(spareGrace) // the test waits for this time itself
	if code := s.dial(t).get("/healthz"); code != http.StatusOK {
		t.Errorf("health is answered %d", code)
	}
	close(s.release)
	for _, c := range busy {
		if resp, err := http.ReadResponse(c.r, nil); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("a request of a connection that stays: %v, %v", resp, err)
		}
	}
}

// A connection is not closed for another one before its answer is written: net/http
// writes the end of the answer after the handler returned.
func TestConnectionStaysUntilAnswered(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		for _, body := range []string{"", "Content-Length: 100000"} { // of the second nothing is sent
			s := serve(t, Options{Total: 1}, secure)
			dial := s.dial
			if secure {
				dial = s.dialTLS
			}
			c := dial(t)
			fmt.Fprintf(c, "POST /late HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n", cmp.Or(body, "Content-Length: 0"))
			<-s.holding
			if code := dial(t).get("/"); code != http.StatusServiceUnavailable {
				t.Errorf("TLS %t: a connection beside an answer that is not written is answered %d", secure, code)
			}
			close(s.release)
			resp, err := http.ReadResponse(c.r, nil)
			if err != nil {
				t.Fatalf("TLS %t, %q: %v", secure, body, err)
			}
			if answer, err := io.ReadAll(resp.Body); string(answer) != "ok" || err != nil {
				t.Errorf("TLS %t, %q: the answer is %q, %v", secure, body, answer, err)
			}
			s.eventually(t, "no request is left", func(st Stats) bool { return st.Busy == 0 })
			if code := dial(t).get("/"); code != http.StatusOK {
				t.Errorf("TLS %t, %q: the next connection is answered %d", secure, body, code)
			}
		}
	}
}

// A server that shuts down does not wait for a half request.
func TestShutdown(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{Total: 10}, false)
	half := s.dial(t)
	if code := half.get("/"); code != http.StatusOK {
		t.Fatalf("a request is answered %d", code)
	}
	io.WriteString(half, "GET / HT")
	busy := s.dial(t)
	busy.send("/hold")
	<-s.holding
	ended := make(chan error, 1)
	go func() { ended <- s.server.Shutdown(t.Context()) }()
	half.closed()
	close(s.release)
	if resp, err := http.ReadResponse(busy.r, nil); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("a request under way: %v, %v", resp, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Under TLS, the server and the limiter see the same connections.
func TestTLS(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{Total: 1}, true)
	s.dial(t) // no handshake: no request
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	held := make(chan error, 1)
	go func() {
		resp, err := client.Get("https://" + s.addr + "/hold")
		if err == nil {
			resp.Body.Close()
		}
		held <- err
	}()
	<-s.holding
	if st := s.limiter.Stats(); st.Busy != 1 || st.Closed != 1 {
		t.Errorf("the counts are %+v", st)
	}
	other := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer other.CloseIdleConnections()
	resp, err := other.Get("https://" + s.addr + "/")
	if err != nil || resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a connection beyond the bound: %v, %v", resp, err)
	}
	close(s.release)
	if err := <-held; err != nil {
		t.Error(err)
	}
	s.eventually(t, "no request is left", func(st Stats) bool { return st.Busy == 0 })
}

// One address cannot take the connections of others, except the loopback address.
func TestPerAddress(t *testing.T) {
	t.Parallel()
	l := New(Options{Name: "test", Total: 4, Logger: slog.New(slog.DiscardHandler)})
	admit := func(addr string) *conn {
		mine, theirs := net.Pipe()
		t.Cleanup(func() { mine.Close(); theirs.Close() })
		tcp, err := net.ResolveTCPAddr("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		return l.admit(addressed{mine, tcp})
	}
	var mine []*conn
	for _, addr := range []string{"[2001:db8::1]:1", "[2001:db8::2]:1", "[2001:db8::3]:1"} { // one network
		mine = append(mine, admit(addr))
	}
	if !mine[0].isRemoved || mine[1].isRemoved || mine[2].isRemoved {
		t.Error("the longest idle connection of the address was not the one closed")
	}
	l.begin(mine[1])
	l.begin(mine[2])
	if c := admit("[2001:db8::4]:1"); !c.spare {
		t.Error("a third connection of a busy address is no spare one")
	}
	for range 3 {
		if c := admit("127.0.0.1:1"); c.spare {
			t.Error("a connection of another address is a spare one")
		}
	}
	if st := l.Stats(); st.Open != 5 || st.Busy != 2 || st.Closed != 2 || st.Refused != 1 {
		t.Errorf("the counts are %+v", st)
	}
}

type addressed struct {
	net.Conn
	addr net.Addr
}

func (a addressed) RemoteAddr() net.Addr { return a.addr }
