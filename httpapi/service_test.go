package httpapi_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"daybook/events"
	"daybook/httpapi"
	"daybook/projections"
)

func get(t *testing.T, h http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Host = "127.0.0.1:8080"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// quietQueries answers the queries of the landing page.
type quietQueries struct{ noQueries }

func (quietQueries) Executions(context.Context, string, projections.ExecutionFilter) (projections.ExecutionPage, error) {
	return projections.ExecutionPage{}, nil
}
func (quietQueries) SessionNames(context.Context, string, int, string) ([]string, string, error) {
	return []string{"a"}, "", nil
}

// A page loads no other resource, and its policy allows its style.
func TestPagesAreSelfContained(t *testing.T) {
	t.Parallel()
	h := newBareHandler(t, func(o *httpapi.Options) { o.Queries = quietQueries{} })
	style := regexp.MustCompile(`(?s)<style>(.*)</style>`)
	if page := get(t, h, "/").Body.String(); !strings.Contains(page, "<pre>curl -H 'Content-Type: text/plain'") || !strings.Contains(page, " http://127.0.0.1:8080/api/exec\ncurl 'http://127.0.0.1:8080/api/executions/") {
		t.Errorf("the commands of the start page:\n%s", page)
	}
	for _, path := range []string{"/", "/docs"} {
		w := get(t, h, path)
		page := w.Body.String()
		if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
			t.Fatalf("%s: %d %s", path, w.Code, page)
		}
		for _, banned := range []string{"<script", "<img", "<link", "@import", "url(", " style=", " onclick"} {
			if strings.Contains(page, banned) {
				t.Errorf("%s has %q", path, banned)
			}
		}
		m := style.FindStringSubmatch(page)
		if m == nil {
			t.Fatalf("%s has no style", path)
		}
		sum := sha256.Sum256([]byte(m[1]))
		want := "style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
		if csp := w.Header().Get("Content-Security-Policy"); !strings.Contains(csp, want) || !strings.HasPrefix(csp, "default-src 'none'") {
			t.Errorf("%s: policy %q does not allow its style (%s)", path, csp, want)
		}
	}
}

// The reference page has every operation of the document.
func TestReferencePageIsComplete(t *testing.T) {
	t.Parallel()
	page := get(t, newBareHandler(t), "/docs").Body.String()
	for path, ops := range document(t).Paths {
		for _, op := range ops {
			if !strings.Contains(page, `id="`+op.OperationID+`"`) || !strings.Contains(page, path) {
				t.Errorf("%s (%s) is missing", op.OperationID, path)
			}
		}
	}
}

// The page renders the texts of the document as CommonMark.
func TestReferencePageRendersMarkdown(t *testing.T) {
	t.Parallel()
	page := get(t, newBareHandler(t), "/docs").Body.String()
	if !strings.Contains(page, "<code>@last</code> is the newest execution") || !strings.Contains(page, "repeat their message as <code>error</code>") {
		t.Error("code in texts is not rendered")
	}
	if strings.Contains(page, "`") || strings.Contains(page, "raw HTML omitted") {
		t.Error("the page holds backquotes, or lacks HTML that a text holds")
	}
}

func TestOpenAPIIsServed(t *testing.T) {
	t.Parallel()
	want, err := httpapi.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	if w := get(t, newBareHandler(t), "/openapi.json"); !bytes.Equal(w.Body.Bytes(), want) {
		t.Errorf("GET /openapi.json: %d, differs from OpenAPI()", w.Code)
	}
}

func TestMountsAreServed(t *testing.T) {
	t.Parallel()
	say := func(s string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(s)) })
	}
	h := newBareHandler(t, func(o *httpapi.Options) {
		o.Mounts = map[string]http.Handler{"/": say("console"), "/mcp": say("mcp")}
		o.Metrics = say("metrics")
	})
	for path, want := range map[string]string{"/": "console", "/app.js": "console", "/mcp": "mcp", "/metrics": "metrics"} {
		if got := get(t, h, path).Body.String(); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	if w := get(t, h, "/healthz"); !strings.Contains(w.Body.String(), `"ok"`) {
		t.Errorf("/healthz: %s", w.Body)
	}
}

type damagedQueries struct{ noQueries }

func (damagedQueries) Damage() error { return events.ErrDamaged }

func TestReadiness(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		change func(*httpapi.Options)
		status int
		text   string
	}{
		{"ready", func(*httpapi.Options) {}, 200, "ready"},
		{"starting", func(o *httpapi.Options) {
			o.Ready = func(context.Context) error { return errors.New("no worker is up yet") }
		}, 503, "no worker is up yet"},
		{"damaged", func(o *httpapi.Options) { o.Queries = damagedQueries{} }, 503, "stored data is damaged"},
	} {
		w := get(t, newBareHandler(t, tc.change), "/readyz")
		if w.Code != tc.status || !strings.Contains(w.Body.String(), tc.text) {
			t.Errorf("%s: %d %s, want %d with %q", tc.name, w.Code, w.Body, tc.status, tc.text)
		}
		if tc.status == 503 && w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", tc.name)
		}
	}
}

// Damaged data is never served.
func TestDamageStopsReads(t *testing.T) {
	t.Parallel()
	h := newBareHandler(t, func(o *httpapi.Options) { o.Queries = damagedQueries{} })
	for _, path := range []string{"/api/executions", "/api/executions/x", "/api/executions/x/output", "/api/sessions", "/api/heaps"} {
		w := get(t, h, path)
		if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "does not match") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// An internal error is logged under the reference in the response, which reveals
// nothing else of the error.
func TestPanicIsAnswered(t *testing.T) {
	t.Parallel()
	var log logged
	h := newBareHandler(t, func(o *httpapi.Options) {
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		o.Mounts = map[string]http.Handler{"/boom": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("secret") })}
	})
	for _, path := range []string{"/boom", "/api/sessions"} { // the second calls a nil interface
		w := get(t, h, path)
		var p httpapi.Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != http.StatusInternalServerError || p.Code != "internal" {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
		ref := p.Error[strings.LastIndex(p.Error, " ")+1:]
		if strings.Contains(w.Body.String(), "secret") || !strings.Contains(log.String(), ref) {
			t.Errorf("%s: answered %s, logged %s", path, w.Body, log.String())
		}
	}
	if n := strings.Count(log.String(), "request failed"); n != 2 {
		t.Errorf("%d log lines for 2 panics", n)
	}
}

// brokenWriter fails like an HTTP/2 connection whose client has disconnected: the
// context of the request ends later.
type brokenWriter struct {
	*httptest.ResponseRecorder
	err error
}

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

// A failed response to a client that has disconnected is not logged as an error of the
// server. A response that the handler itself breaks is.
func TestClientDisconnectsDuringResponse(t *testing.T) {
	t.Parallel()
	var log logged
	h := newBareHandler(t, func(o *httpapi.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	for _, c := range []struct {
		err    error
		logged int
	}{{syscall.EPIPE, 0}, {os.ErrDeadlineExceeded, 0}, {http.ErrContentLength, 1}} {
		func() {
			defer func() {
				if v := recover(); v != http.ErrAbortHandler {
					t.Errorf("an answer that fails with %v ends with %v", c.err, v)
				}
			}()
			r := httptest.NewRequest(http.MethodGet, "/healthz", nil)
			r.Host = "127.0.0.1:8080"
			h.ServeHTTP(brokenWriter{httptest.NewRecorder(), c.err}, r)
		}()
		if n := strings.Count(log.String(), "request failed"); n != c.logged {
			t.Errorf("behind an answer that fails with %v the log has %d errors, want %d: %s", c.err, n, c.logged, log.String())
		}
	}
}

func TestUnroutedAnswersAreProblems(t *testing.T) {
	t.Parallel()
	h := newBareHandler(t)
	for _, tc := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"GET", "/nowhere", 404, ""},
		{"GET", "/api/", 404, ""},
		{"GET", "/api/exec", 405, "POST"},
		{"DELETE", "/api/executions", 405, "GET, HEAD"},
		{"POST", "/healthz", 405, "GET, HEAD"},
	} {
		r := httptest.NewRequest(tc.method, tc.path, nil)
		r.Host = "localhost"
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		var p httpapi.Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != tc.status || p.Status != tc.status || p.Error == "" || w.Header().Get("Allow") != tc.allow {
			t.Errorf("%s %s: %d %q %s", tc.method, tc.path, w.Code, w.Header().Get("Allow"), w.Body)
		}
	}
}
