package httpapi_test

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A body with a malformed chunked encoding is answered 400.
func TestMalformedBody(t *testing.T) {
	t.Parallel()
	s := start(t)
	var trailers strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&trailers, "X%d: a\r\n", i)
	}
	for name, body := range map[string]string{
		"chunk extensions":     strings.Repeat("1;"+strings.Repeat("x", 4000)+"\r\n1\r\n", 10) + "0\r\n\r\n",
		"trailers":             "1\r\n1\r\n0\r\n" + trailers.String() + "\r\n",
		"a long chunk":         "1\r\n11\r\n0\r\n\r\n",
		"a size without digit": "x\r\n1\r\n0\r\n\r\n",
	} {
		conn := s.raw("POST /api/exec HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n" + body)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %v, %v", name, resp, err)
		}
		conn.Close()
	}
}
