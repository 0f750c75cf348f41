package httpapi_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"daybook/httpapi"
	"daybook/internal/web"
)

func TestStreamType(t *testing.T) {
	t.Parallel()
	for accept, want := range map[string]string{
		"":                                    "",
		"*/*":                                 "",
		"application/json":                    "",
		"text/event-stream":                   "text/event-stream",
		"Text/Event-Stream; charset=utf-8":    "text/event-stream",
		"application/json, text/event-stream": "", // equal weight: the first
		"text/event-stream, application/json": "text/event-stream",
		"application/json;q=0.5, text/event-stream": "text/event-stream",
		"text/event-stream;q=0":                     "",
		"text/html;q=0.9,application/x-ndjson":      "application/x-ndjson",
		"a;":                                        "",
		";;,,=":                                     "",
		"text/event-stream;q=x":                     "",
	} {
		if got := httpapi.StreamType([]string{accept}); got != want {
			t.Errorf("%q: %q, want %q", accept, got, want)
		}
	}
	if got := httpapi.StreamType([]string{"text/html", "text/event-stream"}); got != "text/event-stream" {
		t.Errorf("given in two headers: %q", got)
	}
}

func TestClientName(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                             "",
		"curl/8":                       "curl/8",
		"a\tb\x00c\x7f":                "abc",
		"a\xffb":                       "a\uFFFDb",
		strings.Repeat("é", 200):       strings.Repeat("é", 128),
		"x" + strings.Repeat("é", 200): "x" + strings.Repeat("é", 127),
	} {
		if got := httpapi.ClientName(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// slowWriter records the deadlines and lengths of writes, and fails from a given write
// on.
type slowWriter struct {
	http.ResponseWriter
	deadlines []time.Time
	pieces    []int
	failAt    int
}

var errStalled = errors.New("deadline exceeded")

func (w *slowWriter) SetWriteDeadline(t time.Time) error {
	w.deadlines = append(w.deadlines, t)
	return nil
}

func (w *slowWriter) Write(p []byte) (int, error) {
	w.pieces = append(w.pieces, len(p))
	if len(w.pieces) == w.failAt {
		return 1, errStalled
	}
	return len(p), nil
}

// Each piece of a long response has its own deadline: a slow client is not cut off, and
// the server does not wait for a stalled one.
func TestWritesHaveDeadlines(t *testing.T) {
	t.Parallel()
	slow := &slowWriter{ResponseWriter: httptest.NewRecorder()}
	n, err := httpapi.PatientWriter(slow).Write(make([]byte, 2*httpapi.WritePiece+5))
	if err != nil || n != 2*httpapi.WritePiece+5 {
		t.Fatalf("wrote %d, %v", n, err)
	}
	if want := []int{httpapi.WritePiece, httpapi.WritePiece, 5}; !cmp.Equal(slow.pieces, want) || len(slow.deadlines) != 3 {
		t.Errorf("pieces %v with %d deadlines", slow.pieces, len(slow.deadlines))
	}
	for _, d := range slow.deadlines {
		if in := time.Until(d); in <= 0 || in > time.Minute {
			t.Errorf("a deadline in %v", in)
		}
	}
	stalled := &slowWriter{ResponseWriter: httptest.NewRecorder(), failAt: 2}
	n, err = httpapi.PatientWriter(stalled).Write(make([]byte, 5*httpapi.WritePiece))
	if !errors.Is(err, errStalled) || n != httpapi.WritePiece+1 || len(stalled.pieces) != 2 {
		t.Errorf("stalled: wrote %d in %d pieces, %v", n, len(stalled.pieces), err)
	}
}

// Decoding never crashes, and the standard decoder returns the same values for accepted
// input.
func FuzzDecodeSubmission(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"code":"1+1"}`, `{"code":"\ud83d\ude00","tags":{"a":"b"},"execution_timeout_secs":5}`, `{"code":"\ud83d"}`, `{"code":"\\ud83d"}`,
		`{"code":"\ude00\ud83d"}`, `{"code":null,"tags":null}`, `{"tags":{"a":1}}`, `{"code":"a","code":"b"}`, `[`, `{"code":"` + "\xff" + `"}`, `{"execution_timeout_secs":1e9}`, "",
		`{"code":"1"}x`, `{"":1}`, `{"tags":{"\u0000":"\u0000"}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, refusal := httpapi.DecodeSubmission(raw)
		if refusal != "" {
			if !utf8.ValidString(refusal) && utf8.Valid(raw) {
				t.Errorf("broken message %q", refusal)
			}
			return
		}
		var want struct {
			Code    string            `json:"code"`
			Tags    map[string]string `json:"tags"`
			Timeout *float64          `json:"execution_timeout_secs"` // 5.0 is 5
		}
		if err := json.Unmarshal(raw, &want); err != nil {
			t.Fatalf("accepted %q, which is not valid: %v", raw, err)
		}
		sameTimeout := (got.Timeout == nil) == (want.Timeout == nil) && (got.Timeout == nil || float64(*got.Timeout) == *want.Timeout)
		if got.Code != want.Code || !cmp.Equal(got.Tags, want.Tags) || !sameTimeout {
			t.Errorf("%q: read %+v, want %+v", raw, got, want)
		}
		if !utf8.ValidString(got.Code) {
			t.Errorf("%q: accepted invalid text", raw)
		}
	})
}

// Reading headers and queries never crashes, and only text that can be recorded is
// accepted.
func FuzzRequestParts(f *testing.F) {
	for _, seed := range []string{"", "a=1&b=2", "%zz", "a;", "text/event-stream;q=0.1,a/b", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "a\xff", strings.Repeat("é", 300)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		switch got := httpapi.StreamType([]string{s}); got {
		case "", "text/event-stream", "application/x-ndjson":
		default:
			t.Errorf("stream type %q", got)
		}
		if name := httpapi.ClientName(s); len(name) > 256 || !utf8.ValidString(name) || strings.ContainsAny(name, "\x00\n\r") {
			t.Errorf("client %q", name)
		}
		if httpapi.ValidTraceparent(s) && (len(s) != 55 || !strings.HasPrefix(s, "00-")) {
			t.Errorf("traceparent %q", s)
		}
		if got, want := httpapi.ParseQuery(s), isQuery(s); got != want {
			t.Errorf("the query %q is accepted: %t, want %t", s, got, want)
		}
	})
}

// isQuery reports whether a query is well formed, has no parameter twice except those that may be
// repeated, and holds only text.
func isQuery(s string) bool {
	seen := map[string]bool{}
	for _, part := range strings.Split(s, "&") {
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		name, nameErr := url.QueryUnescape(name)
		value, valueErr := url.QueryUnescape(value)
		if strings.Contains(part, ";") || nameErr != nil || valueErr != nil || !utf8.ValidString(name) || !utf8.ValidString(value) || strings.Contains(value, "\x00") {
			return false
		}
		if seen[name] && name != "tag" && name != "type" {
			return false
		}
		seen[name] = true
	}
	return true
}

// A body with too many values is refused before they are decoded.
func TestTooManyValues(t *testing.T) {
	t.Parallel()
	tags := strings.Repeat(`"a":"b",`, web.MaxJSONValues)
	s := start(t)
	a := s.do("POST", "/api/exec", `{"code":"1","tags":{`+tags+`"c":"d"}}`, "Content-Type", "application/json")
	if a.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(a.body), "more than 20000 values") {
		t.Errorf("%s: %.200s", a.Status, a.body)
	}
}
