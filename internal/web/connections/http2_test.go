package connections

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Handlers and clients of HTTP/2 see the same as with net/http alone: the TLS state,
// bodies larger than the windows, trailers, 100-continue, flushed answers and the
// shutdown of the server. HTTP/1 is served at the same address.
func TestHTTP2LikeNetHTTP(t *testing.T) {
	t.Parallel()
	const size = 4 << 20
	flushed := make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || !r.TLS.HandshakeComplete || r.TLS.NegotiatedProtocol != r.Header.Get("Protocol") {
			t.Errorf("%s %s has the state of TLS %+v", r.Proto, r.URL, r.TLS)
		}
		switch r.URL.Path {
		case "/stream":
			io.WriteString(w, "first")
			_ = http.NewResponseController(w).Flush()
			<-flushed
		case "/echo":
			w.Header().Set("Trailer", "Sum")
			body, err := io.ReadAll(r.Body)
			if err != nil || len(body) != size {
				t.Errorf("a body of %d bytes, %v", len(body), err)
			}
			w.Write(body)
			w.Header().Set("Sum", r.Trailer.Get("Sum"))
		case "/refused":
			w.WriteHeader(http.StatusForbidden) // the body is not asked for
		}
	}))
	limiter := New(Options{Total: 10})
	limiter.surplus.next = time.Now().Add(time.Hour) // none of these clients causes so much work that it waits
	limiter.Bind(server.Config)
	config := &tls.Config{Certificates: []tls.Certificate{certificate()}, NextProtos: []string{"h2", "http/1.1"}}
	server.Listener = limiter.SecureListener(server.Listener, config)
	server.Start()
	defer server.Close()
	url := "https://" + server.Listener.Addr().String()
	do := func(h2 bool, method, path string, body io.Reader) *http.Response {
		t.Helper()
		tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: h2, ExpectContinueTimeout: time.Minute}
		t.Cleanup(tr.CloseIdleConnections)
		r, err := http.NewRequestWithContext(t.Context(), method, url+path, body)
		if err != nil {
			t.Fatal(err)
		}
		want := "HTTP/1.1"
		if h2 {
			want = "HTTP/2.0"
			r.Header.Set("Protocol", "h2")
		}
		if body != nil {
			r.Header.Set("Expect", "100-continue")
			r.Trailer = http.Header{"Sum": {"one"}}
			r.ContentLength = -1
		}
		resp, err := (&http.Client{Transport: tr}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		if resp.Proto != want {
			t.Errorf("%s is answered with %s", path, resp.Proto)
		}
		return resp
	}
	if resp := do(false, "GET", "/", nil); resp.StatusCode != http.StatusOK {
		t.Errorf("HTTP/1 is answered %s", resp.Status)
	}
	sent := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	resp := do(true, "POST", "/echo", bytes.NewReader(sent))
	if got, err := io.ReadAll(resp.Body); err != nil || !bytes.Equal(got, sent) || resp.Trailer.Get("Sum") != "one" {
		t.Errorf("%d bytes and the trailer %v come back, %v", len(got), resp.Trailer, err)
	}
	if resp := do(true, "POST", "/refused", strings.NewReader("body")); resp.StatusCode != http.StatusForbidden {
		t.Errorf("a body that is not asked for is answered %s", resp.Status)
	}
	resp = do(true, "GET", "/stream", nil)
	first := make([]byte, 5)
	if _, err := io.ReadFull(resp.Body, first); err != nil || string(first) != "first" {
		t.Errorf("flushed: %q, %v", first, err)
	}
	ended := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		ended <- server.Config.Shutdown(ctx)
	}()
	close(flushed)
	if rest, err := io.ReadAll(resp.Body); err != nil {
		t.Errorf("the rest of a request under way: %q, %v", rest, err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the server does not end: %v", err)
	}
}
