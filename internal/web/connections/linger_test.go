package connections

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"testing"
)

// A client that sends a large request completely before it reads gets the answer that
// refused the request.
func TestRefusedBody(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		s := serve(t, Options{Total: 10}, secure)
		c := s.dial(t)
		if secure {
			c = s.dialTLS(t)
		}
		c.sendBody(20<<20, 20<<20)
		resp, err := http.ReadResponse(c.r, nil)
		if err != nil {
			t.Fatalf("TLS %t: %v", secure, err)
		}
		if body, err := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK || !resp.Close || string(body) != "ok" || err != nil {
			t.Errorf("TLS %t: the answer has status %d, close is %t, its body is %q, %v", secure, resp.StatusCode, resp.Close, body, err)
		}
		c.closed()
	}
}

// After a request with a small body, read or not, the connection stays open and the
// answer has its length.
func TestSmallBodyKeepsTheConnection(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{Total: 10}, true)
	c := s.dialTLS(t)
	for _, path := range []string{"/", "/read"} {
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello", path)
		resp, err := http.ReadResponse(c.r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(resp.Body); resp.Close || resp.ContentLength != 2 || string(body) != "ok" || err != nil {
			t.Errorf("%s: close is %t, length %d, %q, %v", path, resp.Close, resp.ContentLength, body, err)
		}
	}
}

func (s *testServer) dialTLS(t *testing.T) *client {
	t.Helper()
	plain := s.dial(t)
	c := tls.Client(plain.Conn, &tls.Config{InsecureSkipVerify: true}) // only the connection matters
	return &client{c, t, bufio.NewReader(c)}
}

// sendBody sends a request that announces a number of bytes, and a part of them.
func (c *client) sendBody(announced, sent int) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", announced); err != nil {
		c.t.Fatal(err)
	}
	piece := make([]byte, 1<<20)
	for n := 0; n < sent; n += len(piece) {
		if _, err := c.Write(piece); err != nil {
			c.t.Fatalf("after %d bytes: %v", n, err)
		}
	}
}

// A client that never stops sending is disconnected.
func TestEndlessBody(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		s := serve(t, Options{Total: 10}, secure)
		c := s.dial(t)
		if secure {
			c = s.dialTLS(t)
		}
		c.sendBody(1<<40, 0)
		piece := make([]byte, 1<<20)
		for sent := 0; ; sent += len(piece) {
			if _, err := c.Write(piece); err != nil {
				break
			}
			if sent > 2*lingerBytes { // buffers of the kernel hold the rest
				t.Fatalf("TLS %t: the server took %d bytes of a refused request", secure, sent)
			}
		}
	}
}
