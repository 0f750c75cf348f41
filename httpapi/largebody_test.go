package httpapi_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"daybook/httpapi"
	"daybook/internal/resources/budget"
)

// A long body is decoded to the same result as a short one, by other code.
func TestLongBodiesDecodeAlike(t *testing.T) {
	t.Parallel()
	space := bytes.Repeat([]byte(" "), 1<<20)
	for _, raw := range []string{
		`{}`, `{"code":"1+1"}`, `{"code":"\ud83d\ude00","tags":{"a":"b"},"execution_timeout_secs":5}`, `{"code":"\ud83d"}`, `{"code":null,"tags":null}`, `{"tags":{"a":1}}`,
		`{"code":"a","code":"b"}`, `[1]`, "{\"code\":\"\xff\"}", `{"execution_timeout_secs":1e9}`, `{"code":"1"}x`, `{"":1}`, `{"tags":{"\u0000":"\u0000"}}`, `{"\ud800":1}`, `"x"`,
		`{"code" : "a\"}" , "tags":{"x":"{","y":"]"}}`, `{"code":["a"],"heap":"b"}`, `{"code":"` + strings.Repeat("x", 1<<20) + `"}`, `{"code":"` + strings.Repeat(`\n`, 1<<20) + `"}`,
	} {
		short, refused := httpapi.DecodeSubmission([]byte(raw))
		long, refusedLong := httpapi.DecodeSubmission(append([]byte(raw), space...))
		if !cmp.Equal(short, long) || refused != refusedLong {
			t.Errorf("%.80q: %.200v %q, with space after it %.200v %q", raw, short, refused, long, refusedLong)
		}
		var want struct{ Code string }
		if refused == "" && (json.Unmarshal([]byte(raw), &want) != nil || want.Code != long.Code) {
			t.Errorf("%.80q: another code than the standard decoder reads", raw)
		}
	}
}

// A large body takes the memory for all of its bytes once 1 MiB was received, and
// returns it at the end of the request.
func TestBodiesAreCounted(t *testing.T) {
	t.Parallel()
	s := start(t)
	b := budget.New(budget.Options{Answers: 64 << 20, Runs: 1, Cache: 1, Patience: time.Millisecond})
	s.serve(func(o *httpapi.Options) { o.Budget = b })
	code := "/*" + strings.Repeat("x", 3<<20) + "*/1"
	for name, length := range map[string]int64{"known length": int64(len(code)), "chunked": -1} {
		body, w := io.Pipe()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/api/exec", body)
		if err != nil {
			t.Fatal(err)
		}
		req.ContentLength = length
		req.Header.Set("Content-Type", "text/plain")
		want := max(4*length, 8<<20) // four copies of the body, or of twice the received part
		used := make(chan int64, 1)
		go func() {
			io.WriteString(w, code[:1<<20+writePiece])
			deadline := time.Now().Add(20 * time.Second)
			for b.Stats().Answers.Used < want && time.Now().Before(deadline) {
				time.Sleep(time.Millisecond) // polls the server
			}
			used <- b.Stats().Answers.Used
			io.WriteString(w, code[1<<20+writePiece:])
			w.Close()
		}()
		resp, err := s.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusAccepted {
			t.Errorf("%s: %s %.300s, %v", name, resp.Status, raw, err)
		}
		if got := <-used; got < want {
			t.Errorf("%s: %d bytes are taken before the body is read; want %d", name, got, want)
		}
		for deadline := time.Now().Add(20 * time.Second); b.Stats().Answers.Used > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %d bytes are held after the request", name, b.Stats().Answers.Used)
			}
		}
	}
	// A body that is too long is answered 413, with and without a Content-Length.
	for _, length := range []int64{49<<20 + 1, -1} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/api/exec", io.LimitReader(spaces{}, 49<<20+1))
		if err != nil {
			t.Fatal(err)
		}
		req.ContentLength = length
		if resp, err := s.client.Do(req); err == nil { // the server may close the connection first
			resp.Body.Close()
			if resp.StatusCode != http.StatusRequestEntityTooLarge {
				t.Errorf("a body of more than 49 MiB: %s", resp.Status)
			}
		}
	}
}

const writePiece = 64 << 10

// spaces is an endless body.
type spaces struct{}

func (spaces) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}
