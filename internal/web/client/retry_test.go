package client_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"daybook/internal/web/client"
)

// Only reads that may soon succeed are sent again.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	const limit, permanent = `{"error":"too many","code":"exhausted"}`, `{"error":"too many","code":"exhausted","permanent":true}`
	for _, test := range []struct {
		method, after, accept, body string
		requests                    int64
		path                        string
	}{
		{http.MethodGet, "0", "", limit, 3, "/"},
		{http.MethodPost, "0", "", limit, 1, "/"},
		{http.MethodGet, "0", "text/event-stream", limit, 1, "/"},
		{http.MethodGet, "0", "application/x-ndjson", limit, 3, "/api/ledger/export"},
		{http.MethodGet, "0", "application/x-ndjson", limit, 1, "/api/sessions/s/replay?speed=2"},
		{http.MethodPost, "0", "", limit, 3, "/api/executions/e/replay"},
		{http.MethodPost, "0", "", permanent, 1, "/api/executions/e/replay"},
		{http.MethodPost, "0", "", limit, 1, "/api/executions/e/what-if"},
		{http.MethodPost, "0", "", limit, 1, "/api/sessions/s/replay"},
		{http.MethodGet, "", "", limit, 1, "/"},
		{http.MethodGet, "soon", "", limit, 1, "/"},
		{http.MethodGet, "31", "", limit, 1, "/"},
		{http.MethodGet, "0", "", permanent, 1, "/"},
	} {
		var requests atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if requests.Add(1) == 3 {
				return
			}
			if test.after != "" {
				w.Header().Set("Retry-After", test.after)
			}
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, test.body)
		}))
		resp, err := client.New(server.URL, client.Options{HTTP: server.Client()}).Send(within(t), test.method, test.path, nil, "Accept", test.accept)
		if err == nil {
			resp.Body.Close()
		}
		server.Close()
		refused, ok := errors.AsType[*client.Error](err)
		if got := requests.Load(); got != test.requests || (err == nil) != (test.requests == 3) || err != nil && (!ok || refused.Status != http.StatusTooManyRequests) {
			t.Errorf("%+v: %d requests, %v", test, got, err)
		}
	}
}

// An id in a path is one segment.
func TestIDsInPaths(t *testing.T) {
	t.Parallel()
	paths := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths <- r.URL.EscapedPath()
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	c := client.New(server.URL, client.Options{HTTP: server.Client()})
	ctx := within(t)
	for want, send := range map[string]func(id string) error{
		"/api/executions/a%2Fb%3Fc":            func(id string) error { _, err := c.Execution(ctx, id); return err },
		"/api/heaps/a%2Fb%3Fc":                 func(id string) error { _, err := c.Heap(ctx, id); return err },
		"/api/webhooks/a%2Fb%3Fc/dead-letters": func(id string) error { _, err := c.DeadLetters(ctx, id); return err },
	} {
		if err := send("a/b?c"); err == nil {
			t.Error("no error")
		}
		if got := <-paths; got != want {
			t.Errorf("the path is %s, want %s", got, want)
		}
	}
}
