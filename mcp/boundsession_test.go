package mcp_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"daybook/mcp"
)

// serveDirect sends a request to a handler without a connection.
func serveDirect(h http.Handler, body, session string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "http://localhost/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// A session keeps the params of initialize, and each notification repeats a progress
// token: both are bounded.
func TestClientTextsAreBounded(t *testing.T) {
	t.Parallel()
	h := new(fakeStack).serve(t, mcp.Options{}).Handler()
	long := strings.Repeat("x", 1<<20)
	w := serveDirect(h, strings.Replace(initializeLine, `"curl"`, `"`+long+`"`, 1), "")
	if body := w.Body.String(); !strings.Contains(body, "the limit is 16384") || len(body) > 1000 {
		t.Errorf("a name of 1 MiB: %.300s", body)
	}
	if w := serveDirect(h, `{"jsonrpc":"2.0","id":2,"method":"ping"}`, w.Header().Get("Mcp-Session-Id")); w.Code == http.StatusOK && w.Header().Get("Mcp-Session-Id") != "" {
		t.Error("the refused session is open")
	}
	icons := strings.Replace(initializeLine, `"curl"`, `"curl","icons":[{"src":"data:image/png;base64,`+long+`"}]`, 1)
	w = serveDirect(h, icons, "")
	session := w.Header().Get("Mcp-Session-Id")
	if w.Code != http.StatusOK || session == "" || strings.Contains(w.Body.String(), `"error"`) {
		t.Errorf("an icon of 1 MiB: %d %.300s", w.Code, w.Body)
	}
	for token, refused := range map[string]bool{`"` + strings.Repeat("x", 1024) + `"`: false, `"` + long + `"`: true, `5`: false} {
		body := serveDirect(h, `{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"_meta":{"progressToken":`+token+`}}}`, session).Body.String()
		if strings.Contains(body, "the progress token has 1048576 bytes") != refused || refused == strings.Contains(body, `"result"`) {
			t.Errorf("a token of %d bytes: %.300s", len(token), body)
		}
	}
}

// An idle session takes one goroutine, and answered requests leave nothing in it.
func TestIdleSessionIsSmall(t *testing.T) { //nolint:paralleltest // counts goroutines
	h := new(fakeStack).serve(t, mcp.Options{}).Handler()
	serveDirect(h, initializeLine, "")
	before := runtime.NumGoroutine()
	const n = 50
	var session string
	for range n {
		session = serveDirect(h, initializeLine, "").Header().Get("Mcp-Session-Id")
	}
	// The goroutines of the requests end a little later.
	for end := time.Now().Add(20 * time.Second); runtime.NumGoroutine()-before > n+5; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d idle sessions take %d goroutines, want one each", n, runtime.NumGoroutine()-before)
		}
	}
	held := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for range 200 { // more streams than are kept
		serveDirect(h, `{"jsonrpc":"2.0","id":2,"method":"ping"}`, session)
	}
	level := held()
	const pings = 2000
	for range pings {
		serveDirect(h, `{"jsonrpc":"2.0","id":2,"method":"ping"}`, session)
	}
	if kept := (held() - level) / pings; kept > 50 {
		t.Errorf("each request leaves %d bytes in its session", kept)
	}
}

// However many clients of a principal initialize concurrently, and however many sessions
// they delete, no response has a status of 5xx and few sessions remain.
func TestConcurrentInitialize(t *testing.T) { //nolint:paralleltest // counts goroutines
	auth, list := tokens(t, "acme/ada read run")
	h := new(fakeStack).serve(t, mcp.Options{Auth: auth}).Handler()
	send := func(method, body, session string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, "http://localhost/mcp", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Authorization", "Bearer "+list[0])
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	before := runtime.NumGoroutine()
	var crowd sync.WaitGroup
	for range 20 {
		crowd.Go(func() {
			for range 30 {
				if w := send(http.MethodPost, initializeLine, ""); w.Code != http.StatusOK && w.Code != http.StatusTooManyRequests {
					t.Errorf("initialize: %d %s", w.Code, w.Body)
				}
			}
		})
	}
	crowd.Wait()
	for range 100 {
		session := send(http.MethodPost, initializeLine, "").Header().Get("Mcp-Session-Id")
		for _, want := range []int{http.StatusNoContent, http.StatusNotFound} {
			if w := send(http.MethodDelete, "", session); w.Code != want {
				t.Errorf("DELETE: %d, want %d", w.Code, want)
			}
		}
	}
	for end := time.Now().Add(20 * time.Second); runtime.NumGoroutine()-before > 256+5; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines are left", runtime.NumGoroutine()-before)
		}
	}
}

// A session watches at most 100 addresses.
func TestSubscriptionsAreBounded(t *testing.T) {
	t.Parallel()
	h := new(fakeStack).serve(t, mcp.Options{}).Handler()
	session := serveDirect(h, initializeLine, "").Header().Get("Mcp-Session-Id")
	subscribe := func(uri string) bool {
		body := serveDirect(h, `{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"`+uri+`"}}`, session).Body.String()
		refused := strings.Contains(body, "a connection may watch 100 addresses")
		if !refused && !strings.Contains(body, `"result"`) {
			t.Errorf("subscribe to %s: %s", uri, body)
		}
		return !refused
	}
	for range 300 {
		if !subscribe("session://same") {
			t.Fatal("an address that is watched is refused")
		}
	}
	watched := 1
	for i := range 150 {
		if subscribe(fmt.Sprintf("session://s%d", i)) {
			watched++
		}
	}
	if watched != 100 {
		t.Errorf("%d addresses are watched", watched)
	}
	// Values of lists and completions from the client are refused and not kept.
	for _, params := range []string{`{"cursor":"-1"}`, `{"cursor":"99999999999999999999"}`, `{"cursor":"` + strings.Repeat("x", 1<<20) + `"}`} {
		for _, method := range []string{"tools/list", "resources/templates/list", "tasks/list"} {
			body := serveDirect(h, `{"jsonrpc":"2.0","id":2,"method":"`+method+`","params":`+params+`}`, session).Body.String()
			if !strings.Contains(body, `"error"`) || len(body) > 2000 {
				t.Errorf("%s with %.40s: %.200s", method, params, body)
			}
		}
	}
	for range 300 {
		if w := serveDirect(h, `{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"debug"}}`, session); w.Code != http.StatusOK {
			t.Fatalf("logging/setLevel: %d", w.Code)
		}
	}
}
