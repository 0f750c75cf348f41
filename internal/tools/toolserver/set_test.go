package toolserver_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"daybook/internal/tools/toolserver"
)

// Every transport lists and calls the same tools.
func TestTransports(t *testing.T) {
	set := newSet(t, toolserver.Options{}, child(t, "stdio", "normal"), remote(t, "http", toolserver.HTTP), remote(t, "sse", toolserver.SSE))
	servers := set.Servers(t.Context(), "default")
	for _, name := range []string{"stdio", "http", "sse"} {
		if !slices.Contains(servers[name], "echo") || !slices.IsSorted(servers[name]) {
			t.Fatalf("%s has the tools %q (%s)", name, servers[name], set.Status()[name])
		}
		for _, test := range []struct {
			tool, arguments, want string
			outcome               toolserver.Outcome
		}{
			{"echo", `{"text":"caf\u00e9 <b>"}`, `"café <b>"`, toolserver.OK},
			{"add", `{"numbers":[1,2.5]}`, `{"total":3.5}`, toolserver.OK},
			{"image", `{}`, `{"content":[{"type":"image","mimeType":"image/png","data":"cG5n"}]}`, toolserver.OK},
			{"nothing", `{}`, `{"content":[]}`, toolserver.OK},
			{"huge", `{}`, "the server's answer has 6291458 bytes, at most 4194304 are allowed", toolserver.Failed},
			{"longkey", `{}`, "the server's answer has a name of 71680 bytes, at most 65536 are allowed", toolserver.Failed},
			{"missing", `{}`, `unknown tool "missing"`, toolserver.Failed},
		} {
			r := set.Call(t.Context(), "default", name, test.tool, []byte(test.arguments))
			if r.Outcome != test.outcome || string(r.Text) != test.want {
				t.Errorf("%s %s: %s %.200s, want %s %s", name, test.tool, r.Outcome, r.Text, test.outcome, test.want)
			}
		}
		for _, tool := range []string{"fail", "break"} {
			if r := set.Call(t.Context(), "default", name, tool, []byte("{}")); r.Outcome != toolserver.Failed || strings.Contains(string(r.Text), secret) {
				t.Errorf("%s %s: %s %s", name, tool, r.Outcome, r.Text)
			}
		}
	}
}

// log collects log output.
type log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// A server that fails in any way does not affect the others, and its problem is reported
// without its secrets.
func TestFailingServers(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	wrong := remote(t, "wrong-key", toolserver.HTTP)
	wrong.Headers = map[string]string{"X-Api-Key": "another-" + secret}
	var said log
	set := newSet(t, toolserver.Options{ConnectTimeout: 5 * time.Second, Logger: slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug}))},
		child(t, "good", "normal"),
		child(t, "dead", "dies at once"),
		child(t, "garbage", "garbage"),
		child(t, "endless", "endless line"),
		toolserver.Config{Name: "missing", Command: "/nonexistent/" + secret, Env: map[string]string{"API_KEY": secret}},
		toolserver.Config{Name: "gone", URL: strings.Replace(gone.URL, "http://", "http://user:"+secret+"@", 1) + "/?token=" + secret},
		wrong,
	)
	servers := set.Servers(t.Context(), "default")
	// All start at once, so that the working one may need more time on a busy machine.
	for late := time.Now().Add(2 * time.Minute); len(servers["good"]) == 0 && time.Now().Before(late); {
		servers = set.Servers(t.Context(), "default")
	}
	for name, tools := range servers {
		if (len(tools) > 0) != (name == "good") {
			t.Errorf("%s has the tools %q", name, tools)
		}
	}
	if len(servers) != 7 {
		t.Errorf("servers: %v", servers)
	}
	if r := set.Call(t.Context(), "default", "good", "echo", []byte(`{"text":"still here"}`)); string(r.Text) != `"still here"` {
		t.Errorf("the good one: %s %s", r.Outcome, r.Text)
	}
	for _, name := range []string{"dead", "garbage", "endless", "missing", "gone", "wrong-key"} {
		r := set.Call(t.Context(), "default", name, "echo", []byte("{}"))
		if r.Outcome != toolserver.Failed || len(r.Text) == 0 {
			t.Errorf("%s: %s %s", name, r.Outcome, r.Text)
		}
		if strings.Contains(string(r.Text), secret) {
			t.Errorf("%s tells its secret: %s", name, r.Text)
		}
	}
	if text := said.String() + fmt.Sprint(set.Status()); strings.Contains(text, secret) || !strings.Contains(text, "[hidden]") {
		t.Errorf("the log and the status:\n%s", text)
	}
}

// Lines of a program on standard output that are no messages are dropped and logged. Too
// many of them end the connection.
func TestStrayLines(t *testing.T) {
	var said log
	set := newSet(t, toolserver.Options{Logger: slog.New(slog.NewTextHandler(&said, nil))}, child(t, "banner", "banner"), child(t, "garbage", "garbage"))
	set.Servers(t.Context(), "default")
	if r := set.Call(t.Context(), "default", "banner", "lines", []byte("{}")); string(r.Text) != `{"a":[{"c":1}],"b":{}}` {
		t.Errorf("after a banner: %s %s", r.Outcome, r.Text)
	}
	for _, line := range []string{"Server 1.0 for [hidden]", "[INFO] listening", "[1] ready {", `\"text\"`, "log of it", `zz`, "a parse error", "log line"} {
		if n := strings.Count(said.String(), line); n != 1 {
			t.Errorf("%d lines of the log have %q", n, line)
		}
	}
	if r := set.Call(t.Context(), "default", "garbage", "echo", []byte("{}")); !strings.Contains(string(r.Text), `more than 64 lines of its standard output are no messages, the last one is "not json [hidden]"`) {
		t.Errorf("65 lines: %s %s", r.Outcome, r.Text)
	}
	if strings.Contains(said.String(), secret) {
		t.Error("the log has a secret")
	}
}

// A server that does not answer delays no caller for longer than the limits.
func TestSlowServers(t *testing.T) {
	set := newSet(t, toolserver.Options{ConnectTimeout: 500 * time.Millisecond, CallTimeout: time.Minute}, child(t, "silent", "silent"), child(t, "stubborn", "stubborn"), child(t, "good", "normal"))
	// Three children start concurrently, so that the working one may need more time.
	for len(set.Servers(t.Context(), "default")["good"]) == 0 {
		if t.Context().Err() != nil {
			t.Fatal("the good one never came")
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan toolserver.Result)
	go func() { done <- set.Call(ctx, "default", "good", "wait", []byte("{}")) }()
	cancel()
	if r := <-done; r.Outcome != toolserver.Cancelled {
		t.Errorf("given up: %s %s", r.Outcome, r.Text)
	}
	if r := set.Call(t.Context(), "default", "silent", "x", []byte("{}")); r.Outcome != toolserver.Failed || !strings.Contains(string(r.Text), "no answer within 500ms") {
		t.Errorf("silent: %s %s", r.Outcome, r.Text)
	}

	c := child(t, "limited", "normal")
	c.Timeout = 300 * time.Millisecond
	limited := newSet(t, toolserver.Options{}, c)
	limited.Servers(t.Context(), "default")
	if r := limited.Call(t.Context(), "default", "limited", "wait", []byte("{}")); r.Outcome != toolserver.TimedOut || string(r.Text) != "no answer within 300ms" {
		t.Errorf("limited: %s %s", r.Outcome, r.Text)
	}
}

// A child that died is started again.
func TestRestart(t *testing.T) {
	set := newSet(t, toolserver.Options{Backoff: time.Millisecond}, child(t, "frail", "normal"))
	if r := set.Call(t.Context(), "default", "frail", "die", []byte("{}")); r.Outcome != toolserver.Failed {
		t.Errorf("dying: %s %s", r.Outcome, r.Text)
	}
	deadline := time.Now().Add(time.Minute)
	for {
		r := set.Call(t.Context(), "default", "frail", "echo", []byte(`{"text":"again"}`))
		if string(r.Text) == `"again"` {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("it did not come back: %s %s", r.Outcome, r.Text)
		}
	}
}

// A child gets only the variables for user, locale and programs.
func TestChildEnvironment(t *testing.T) {
	t.Setenv("DAYBOOK_TOKEN", "not-yours-0815")
	set := newSet(t, toolserver.Options{}, child(t, "env", "normal"))
	r := set.Call(t.Context(), "default", "env", "environment", []byte("{}"))
	if r.Outcome != toolserver.OK || strings.Contains(string(r.Text), "0815") || !strings.Contains(string(r.Text), "PATH=") {
		t.Errorf("%s %s", r.Outcome, r.Text)
	}
}

// Only the tenants of a server see it.
func TestTenants(t *testing.T) {
	c := child(t, "private", "normal")
	c.Tenants = []string{"acme"}
	set := newSet(t, toolserver.Options{}, c)
	if servers := set.Servers(t.Context(), "other"); len(servers) != 0 {
		t.Errorf("another tenant sees %v", servers)
	}
	if r := set.Call(t.Context(), "other", "private", "echo", []byte("{}")); r.Outcome != toolserver.Failed || string(r.Text) != "there is no such server" {
		t.Errorf("another tenant gets %s %s", r.Outcome, r.Text)
	}
	if r := set.Call(t.Context(), "acme", "private", "echo", []byte(`{"text":"x"}`)); r.Outcome != toolserver.OK {
		t.Errorf("its tenant gets %s %s", r.Outcome, r.Text)
	}
	if got := set.Status()["private"]; !strings.HasPrefix(got, "connected, ") {
		t.Errorf("status %q", got)
	}
}

// Headers are sent only to the configured host.
func TestHeadersStayAtTheirOrigin(t *testing.T) {
	var leaked sync.Map
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { leaked.Store(r.Header.Get("X-Api-Key"), true) }))
	defer other.Close()
	redirect := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	}))
	defer redirect.Close()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: endpoint\ndata: %s/message\n\n", other.URL)
	}))
	defer elsewhere.Close()
	headers := map[string]string{"X-Api-Key": secret}
	set := newSet(t, toolserver.Options{ConnectTimeout: 10 * time.Second},
		toolserver.Config{Name: "redirects", URL: redirect.URL, Headers: headers},
		toolserver.Config{Name: "elsewhere", Transport: toolserver.SSE, URL: elsewhere.URL, Headers: headers})
	for name, tools := range set.Servers(t.Context(), "default") {
		if len(tools) != 0 {
			t.Errorf("%s has tools", name)
		}
	}
	leaked.Range(func(key, _ any) bool {
		t.Errorf("another host was asked, with the key %q", key)
		return true
	})
}

// Connect starts all servers without waiting. Close ends the attempts in progress.
func TestConnectAndClose(t *testing.T) {
	set, err := toolserver.Connect([]toolserver.Config{child(t, "silent", "silent"), child(t, "stubborn", "stubborn")}, toolserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := set.Close(); err != nil {
		t.Error(err)
	}
	if r := set.Call(t.Context(), "default", "silent", "x", []byte("{}")); r.Outcome != toolserver.Failed {
		t.Errorf("after Close: %s %s", r.Outcome, r.Text)
	}
}
