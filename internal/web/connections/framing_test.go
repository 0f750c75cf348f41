package connections

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"
)

// request is a request as a client sends it, and the body that net/http must read.
type request struct {
	wire, body string
}

// requests are sent one after the other.
var requests = []request{
	{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", ""},
	{"GET / HTTP/1.1\nHost: a\n\n", ""},
	{"GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n folded\r\n\t\r\n more\r\n\r\n", ""},
	{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n\r\nA: b\r\n\r\nGET / HTTP/1", "A: b\r\n\r\nGET / HTTP/1"},
	{"\r\n\r\nPOST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n\n", "\n"},
	{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", ""},
	{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nD;ext=\"\t;\"\r\n\r\n\r\n0\r\n\r\n\r\n\n\n\r\n01  \r\n!\r\n0\r\n\r\n", "hello\r\n\r\n0\r\n\r\n\r\n\n\n!"},
	{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n1\r\nx\r\n000;e\r\nA: b\r\nB: c\r\n\r\n", "x"},
	{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", ""},
	{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n" + strings.Repeat("\r\n", 500), strings.Repeat("\r\n", 500)},
	{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\nX:" + strings.Repeat("x", 5000) + "\r\n\r\nlast body", "last body"},
}

// reader reads requests through a requestConn as net/http does.
type reader struct {
	conn *requestConn
	bufr *bufio.Reader
}

type readConn struct {
	net.Conn
	io.Reader
}

func (readConn) SetWriteDeadline(time.Time) error { return nil }

func (readConn) Write(p []byte) (int, error) { return len(p), nil }

func (c readConn) Read(p []byte) (int, error) { return c.Reader.Read(p) }

func newReader(from io.Reader) *reader {
	c := &requestConn{Conn: readConn{Reader: from}}
	return &reader{c, bufio.NewReader(c)}
}

// next reads a request. It fails if the buffer has bytes after a header or a request.
func (r *reader) next() (body string, err error) {
	for { // net/http skips empty lines
		b, err := r.bufr.Peek(1)
		if err != nil || b[0] != '\r' && b[0] != '\n' {
			break
		}
		r.bufr.Discard(1)
	}
	req, err := http.ReadRequest(r.bufr)
	if err != nil {
		return "", err
	}
	if n := r.bufr.Buffered(); n > 0 {
		return "", fmt.Errorf("%d bytes beyond the header were read", n)
	}
	if r.conn.framing.part != afterHeader {
		return "", fmt.Errorf("the header has ended, but the part is %d", r.conn.framing.part)
	}
	r.conn.begin(req.ContentLength)
	raw, err := io.ReadAll(req.Body)
	if err != nil {
		return "", err
	}
	if r.conn.framing != (framing{}) { // idle closes the connection
		return "", fmt.Errorf("not the end of the request: %+v", r.conn.framing)
	}
	if n := r.bufr.Buffered(); n > 0 {
		return "", fmt.Errorf("%d bytes beyond the request were read", n)
	}
	return string(raw), nil
}

// Requests on one connection are separated as by net/http, for any division of their
// bytes.
func TestFraming(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for _, r := range requests {
		all.WriteString(r.wire)
	}
	wire := all.String()
	check := func(name string, from io.Reader) {
		t.Helper()
		r := newReader(from)
		for i, want := range requests {
			if body, err := r.next(); err != nil || body != want.body {
				t.Fatalf("%s: request %d: %q, %v, want %q", name, i, body, err, want.body)
			}
		}
	}
	check("at once", strings.NewReader(wire))
	check("byte by byte", iotest.OneByteReader(strings.NewReader(wire)))
	for i := range wire {
		check(fmt.Sprintf("split at %d", i), io.MultiReader(strings.NewReader(wire[:i]), strings.NewReader(wire[i:])))
	}
}

// A malformed body ends the counting: net/http refuses it, too.
func TestMalformedChunks(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"\r\n", "x\r\n", "1;a\nx\r\n0\r\n\r\n", "1 ;\r\n", "1\nx\r\n", "1\r\nxy\r\n", "1\r\nx\n0\r\n\r\n", "11111111111111111\r\n", "1\r\rx"} {
		r := newReader(strings.NewReader("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + body))
		if got, err := r.next(); err == nil {
			t.Errorf("%q is read as %q", body, got)
		}
		if r.conn.framing.part != malformed {
			t.Errorf("%q leaves the part %d", body, r.conn.framing.part)
		}
	}
}

// FuzzFraming sends arbitrary bytes. Each end of a header or a request for net/http
// must also be one for the framing.
func FuzzFraming(f *testing.F) {
	for i, r := range requests {
		f.Add([]byte(r.wire+requests[0].wire), uint16(i))
	}
	f.Add([]byte("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: b\n\nGET / HTTP/1.1\r\n\r\n"), uint16(3))
	f.Fuzz(func(t *testing.T, wire []byte, split uint16) {
		at := min(int(split), len(wire))
		r := newReader(io.MultiReader(bytes.NewReader(wire[:at]), bytes.NewReader(wire[at:])))
		for {
			_, err := r.next()
			if err == nil {
				continue
			}
			if strings.Contains(err.Error(), " beyond the ") || strings.Contains(err.Error(), " has ended, but ") {
				t.Fatal(err)
			}
			return
		}
	})
}

// fieldLines returns a header of n lines, including the request line.
func fieldLines(n int) string {
	var b strings.Builder
	b.WriteString("GET / HTTP/1.1\r\nHost: localhost\r\n")
	for i := range n - 2 {
		fmt.Fprintf(&b, "x%d:\r\n", i)
	}
	return b.String()
}

// A header with too many lines is refused before it is complete, also after other
// requests and under TLS. One with the maximum number of lines is accepted.
func TestHeaderLines(t *testing.T) {
	t.Parallel()
	chunked := "POST /read HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"
	for _, secure := range []bool{false, true} {
		s := serve(t, Options{Total: 10}, secure)
		for _, before := range []string{"", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", chunked} {
			c := s.dial(t)
			if secure {
				c = s.dialTLS(t)
			}
			before += fieldLines(maxLines-1) + "\r\n"
			io.WriteString(c, before+fieldLines(maxLines+1))
			want := []int{200, 431}
			if strings.Count(before, "HTTP/1.1") > 1 {
				want = []int{200, 200, 431}
			}
			for i, code := range want {
				resp, err := http.ReadResponse(c.r, nil)
				if err != nil || resp.StatusCode != code {
					t.Fatalf("TLS %t, %.40q: answer %d is %v, %v, want %d", secure, before, i, resp, err, code)
				}
				io.Copy(io.Discard, resp.Body)
			}
			if rest, err := io.ReadAll(c.r); len(rest) > 0 {
				t.Errorf("TLS %t, %.40q: behind the refusal: %q, %v", secure, before, rest, err)
			}
		}
	}
}

// A request whose body has not come is answered at once, and its connection is then
// idle.
func TestAnswerBeforeBody(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		s := serve(t, Options{Total: 10}, secure)
		for _, length := range []string{"Content-Length: 200000", "Transfer-Encoding: chunked", "Content-Length: 5\r\nExpect: 100-continue"} {
			c := s.dial(t)
			if secure {
				c = s.dialTLS(t)
			}
			fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n", length)
			resp, err := http.ReadResponse(c.r, nil)
			if err != nil || resp.StatusCode != http.StatusOK || !resp.Close {
				t.Fatalf("TLS %t, %s: %v, %v", secure, length, resp, err)
			}
			s.eventually(t, "no request is left", func(st Stats) bool { return st.Busy == 0 })
		}
	}
}

// HTTP/2 requests have the same limits: the fields of a header, the requests of a
// connection beside others, and the size of a frame.
func TestHTTP2(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{Total: 2}, true)
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	get := func(path string, fields int) (int, int) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+s.addr+path, nil)
		if err != nil {
			t.Error(err)
			return 0, 0
		}
		for i := range fields {
			req.Header.Set(fmt.Sprintf("X-%d", i), "")
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Error(err)
			return 0, 0
		}
		defer resp.Body.Close()
		io.Copy(io.Discard, resp.Body)
		return resp.StatusCode, resp.ProtoMajor
	}
	if code, proto := get("/", 100); code != http.StatusOK || proto != 2 {
		t.Errorf("a request is answered %d over HTTP/%d", code, proto)
	}
	if code, _ := get("/", maxLines+1); code != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a request with many fields is answered %d", code)
	}
	var held sync.WaitGroup
	for range 2 {
		held.Go(func() {
			if code, _ := get("/hold", 0); code != http.StatusOK {
				t.Errorf("a request that waits is answered %d", code)
			}
		})
		<-s.holding
	}
	if code, _ := get("/", 0); code != http.StatusServiceUnavailable {
		t.Errorf("a request beside as many as there may be is answered %d", code)
	}
	if code, _ := get("/healthz", 0); code != http.StatusOK {
		t.Errorf("health is answered %d", code)
	}
	close(s.release)
	held.Wait()
	if code, _ := get("/", 0); code != http.StatusOK {
		t.Errorf("a request after the others is answered %d", code)
	}
	if c := s.server.HTTP2; c.MaxReadFrameSize != frameBytes || c.MaxReceiveBufferPerConnection != windowBytes || c.MaxConcurrentStreams != maxStreams {
		t.Errorf("the bounds of HTTP/2 are %+v", c)
	}
}
