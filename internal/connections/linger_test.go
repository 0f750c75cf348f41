package connections

import (
	"fmt"
	"io"
	"net/http"
	"testing"
)

// A client that sends all of a large request before it reads gets the answer that
// refused the request.
func TestRefusedBody(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{Total: 10}, false)
	c := s.dial(t)
	const size = 20 << 20
	if _, err := fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", size); err != nil {
		t.Fatal(err)
	}
	piece := make([]byte, 1<<20)
	for sent := 0; sent < size; sent += len(piece) {
		if _, err := c.Write(piece); err != nil {
			t.Fatalf("after %d bytes: %v", sent, err)
		}
	}
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK || !resp.Close {
		t.Errorf("the answer has status %d, close is %t", resp.StatusCode, resp.Close)
	}
	io.Copy(io.Discard, resp.Body)
	c.closed()
}

// A client that never stops sending is cut off.
func TestEndlessBody(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{Total: 10}, false)
	c := s.dial(t)
	if _, err := fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", 1<<40); err != nil {
		t.Fatal(err)
	}
	piece := make([]byte, 1<<20)
	for sent := 0; ; sent += len(piece) {
		if _, err := c.Write(piece); err != nil {
			return
		}
		if sent > 2*lingerBytes { // buffers of the kernel hold the rest
			t.Fatalf("the server took %d bytes of a refused request", sent)
		}
	}
}
