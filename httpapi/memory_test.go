package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"daybook/events"
	"daybook/httpapi"
	"daybook/internal/resources/budget"
)

// blobs serves content of a given length that ends with an error. Its reader takes
// memory from the account of the request.
type blobs struct {
	size int64
	read io.Reader
	take int
	took chan<- struct{} // receives a value for each take, if it is not nil
}

func (b blobs) OpenBlob(ctx context.Context, _ string, _ bool, _ string) (io.ReadCloser, int64, error) {
	if err := budget.TakeOnce(ctx, b.take); err != nil {
		return nil, 0, fmt.Errorf("read heap: %w", err)
	}
	if b.took != nil {
		b.took <- struct{}{}
	}
	return io.NopCloser(b.read), b.size, nil
}

// brokenReader returns an error instead of io.EOF.
type brokenReader struct{ err error }

func (f brokenReader) Read([]byte) (int, error) { return 0, f.err }

const blobPath = "/api/ledger/blobs/heaps/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

// If damage is found while a blob is sent, the response is incomplete. If damage is
// found before, the response is an error.
func TestDamagedBlob(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, size := range []int{0, 10, 64 << 10, 1 << 20} {
		content := bytes.Repeat([]byte("x"), size)
		s.serve(func(o *httpapi.Options) {
			o.Blobs = blobs{size: int64(size), read: io.MultiReader(bytes.NewReader(content), brokenReader{fmt.Errorf("%w: another hash", events.ErrDamaged)})}
		})
		resp, err := s.client.Get(s.url + blobPath)
		if err == nil {
			var got []byte
			got, err = io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK && err == nil {
				t.Errorf("%d bytes: a complete answer of %d", size, len(got))
			}
		}
		if size < 64<<10 && (err != nil || resp.StatusCode != http.StatusInternalServerError) {
			t.Errorf("%d bytes: %v", size, err)
		}
		// Intact content is sent completely.
		s.serve(func(o *httpapi.Options) { o.Blobs = blobs{size: int64(size), read: bytes.NewReader(content)} })
		if a := s.do("GET", blobPath, ""); a.StatusCode != http.StatusOK || !bytes.Equal(a.body, content) || a.ContentLength != int64(size) {
			t.Errorf("%d bytes: %s with %d", size, a.Status, len(a.body))
		}
		if a := s.do("HEAD", blobPath, ""); a.StatusCode != http.StatusOK || a.ContentLength != int64(size) {
			t.Errorf("HEAD of %d bytes: %s, %d", size, a.Status, a.ContentLength)
		}
	}
}

// Requests and responses that need memory held by others are refused with a
// Retry-After, and the memory is returned.
func TestOverBudget(t *testing.T) {
	t.Parallel()
	s := start(t)
	b := budget.New(budget.Options{Answers: 1 << 20, Runs: 1, Cache: 1, Patience: time.Millisecond})
	s.serve(func(o *httpapi.Options) { o.Budget, o.Blobs = b, blobs{take: 600 << 10} })
	others := b.Answer("others", 1)
	if err := others.Take(600 << 10); err != nil {
		t.Fatal(err)
	}
	refused := func(a answer) {
		t.Helper()
		var p httpapi.Problem
		if err := json.Unmarshal(a.body, &p); err != nil {
			t.Fatalf("%v in %s", err, a.body)
		}
		if a.StatusCode != http.StatusServiceUnavailable || a.Header.Get("Retry-After") != "2" || p.Code != "unavailable" || !strings.Contains(p.Detail, "try again in 2 s") {
			t.Errorf("%s, Retry-After %q: %s", a.Status, a.Header.Get("Retry-After"), a.body)
		}
	}
	refused(s.do("GET", blobPath, ""))
	refused(s.do("POST", "/api/exec", strings.Repeat(" ", 2<<20), "Content-Type", "text/plain"))
	if a := s.do("POST", "/api/exec", `{"code":"1"}`, "Content-Type", "application/json"); a.StatusCode != http.StatusAccepted {
		t.Errorf("a small body: %s %s", a.Status, a.body)
	}
	others.Release()
	s.serve(func(o *httpapi.Options) { o.Budget, o.Blobs = b, blobs{take: 2 << 20} })
	if a := s.do("GET", blobPath, ""); a.StatusCode != http.StatusRequestEntityTooLarge || a.Header.Get("Retry-After") != "" || !strings.Contains(string(a.body), "a larger --memory-budget") {
		t.Errorf("an answer that never fits: %s, Retry-After %q: %s", a.Status, a.Header.Get("Retry-After"), a.body)
	}
	if used := b.Stats().Answers.Used; used != 0 {
		t.Errorf("%d bytes are held after the answers", used)
	}
}

// A client that reads nothing loses its connection, and its memory is returned.
func TestStalledReaderIsCutOff(t *testing.T) {
	t.Parallel()
	s := start(t)
	b := budget.New(budget.Options{Answers: 1 << 20, Runs: 1, Cache: 1})
	const size = 64 << 20 // more than the buffers of the connection hold
	took := make(chan struct{}, 1)
	s.serve(func(o *httpapi.Options) {
		o.Budget, o.Pace = b, httpapi.Pace{Window: 100 * time.Millisecond}
		o.Blobs = blobs{size: size, take: 1000, read: io.LimitReader(zeros{}, size), took: took}
	})
	conn := s.raw("GET " + blobPath + " HTTP/1.1\r\nHost: localhost\r\n\r\n")
	<-took
	waitUntil(t, func() bool { return b.Stats().Answers.Used == 0 })
	if n, _ := io.Copy(io.Discard, conn); n >= size {
		t.Errorf("%d bytes are received nevertheless", n)
	}
}

// A client that stops in the middle of its body gets a response and loses its
// connection. If no handler reads the body, the connection may be cut without a
// response.
func TestStalledUploadIsCutOff(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.serve(func(o *httpapi.Options) { o.Pace = httpapi.Pace{Window: 50 * time.Millisecond} })
	for _, path := range []string{"/api/exec", "/nothing"} {
		conn := s.raw("POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
		got, err := io.ReadAll(conn)
		if err != nil || !bytes.HasPrefix(got, []byte("HTTP/1.1 4")) && (len(got) > 0 || path != "/nothing") {
			t.Errorf("%s: %.200q, %v; want an error of the client", path, got, err)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// raw sends bytes to the server.
func (s *stack) raw(text string) net.Conn {
	s.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		s.t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		s.t.Fatal(err)
	}
	return conn
}

func waitUntil(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the condition did not become true")
		}
	}
}

// timedWriter takes a given time for each write, and fails if the deadline is earlier.
type timedWriter struct {
	http.ResponseWriter
	takes    time.Duration
	deadline time.Time
}

func (w *timedWriter) SetWriteDeadline(at time.Time) error { w.deadline = at; return nil }

func (w *timedWriter) Write(p []byte) (int, error) {
	if left := time.Until(w.deadline); left < w.takes {
		time.Sleep(left)
		return 0, errStalled
	}
	time.Sleep(w.takes)
	return len(p), nil
}

// Only the time in which the server waits counts, and enough bytes start a new window.
// Many small writes do not give a slow client more time.
func TestMinimumPace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		piece, times int
		takes, pause time.Duration
		cut          bool
	}{
		{"64 KiB in 29 s", 64 << 10, 20, 29 * time.Second, 0, false},
		{"64 KiB in 31 s", 64 << 10, 20, 31 * time.Second, 0, true},
		{"a little each 10 s", 1000, 20, 10 * time.Second, 0, true},
		{"32 KiB each 14 s", 32 << 10, 20, 14 * time.Second, 0, false},
		{"a little at once, and pauses", 1000, 20, 0, time.Hour, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := httpapi.PatientWriter(&timedWriter{ResponseWriter: httptest.NewRecorder(), takes: c.takes})
			var err error
			for range c.times {
				if _, err = w.Write(make([]byte, c.piece)); err != nil {
					break
				}
				time.Sleep(c.pause)
			}
			if c.cut != errors.Is(err, errStalled) {
				t.Errorf("%s: %v", c.name, err)
			}
		})
	}
}
