package toolserver_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	stdlog "log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"daybook/internal/tools/toolserver"
)

// oddAnswers maps unusual answers of servers to the result for a script. %s is the id.
var oddAnswers = map[string]struct {
	stream, answer, want string
	ok                   bool
}{
	"float id":     {answer: `{"jsonrpc":"2.0","id":%s.0,"result":{"content":[{"type":"text","text":"a"}]}}`, want: `"a"`, ok: true},
	"result first": {answer: `{"result":{"structuredContent":{"b":1.0,"a":2}},"jsonrpc":"2.0","id":%s}`, want: `{"b":1.0,"a":2}`, ok: true},
	"escaped":      {answer: `{"jsonrpc":"2.0","\u0069d":%s,"re\u0073ult":{"content":[{"type":"text","text":"a"}]}}`, want: `"a"`, ok: true},
	"twice":        {answer: `{"jsonrpc":"2.0","id":"x","id":%s,"result":{},"result":{"content":[{"type":"text","text":"a"}]}}`, want: `"a"`, ok: true},
	"both":         {answer: `{"jsonrpc":"2.0","id":%s,"result":null,"error":{"code":-1,"message":"no luck"}}`, want: "no luck"},
	"null error":   {answer: `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"a"}]},"error":null}`, want: `"a"`, ok: true},
	"batch":        {answer: `[{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"a"}]}}]`, want: `"a"`, ok: true},
	"deep":         {answer: `{"jsonrpc":"2.0","id":%s,"result":{"structuredContent":{"a":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}}}`, want: `{"a":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`, ok: true},
	"both kinds":   {answer: `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"a"}],"structuredContent":{"a":1}}}`, want: `{"a":1}`, ok: true},
}

// A message that is valid JSON-RPC is read in any notation.
func TestOddAnswers(t *testing.T) {
	memory := newCounted()
	address, connected := rpc(t, func(w http.ResponseWriter, _ *http.Request, id json.RawMessage, tool string) {
		odd := oddAnswers[strings.TrimPrefix(tool, "event ")]
		answer := strings.Replace(odd.answer, "%s", string(id), 1)
		if !strings.HasPrefix(tool, "event ") {
			fmt.Fprint(w, answer)
			return
		}
		w.Header().Set("Content-Type", "Text/Event-Stream; charset=utf-8")
		// A large message, a request of the server, a comment and a line without a colon
		// precede the answer.
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"%s\"}}\n\n", strings.Repeat("x", 100<<10))
		fmt.Fprint(w, ": alive\r\n\r\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n\nempty\nevent: message\n")
		for i, part := range strings.SplitAfter(answer, ",") { // one space after the colon is removed
			if i > 0 || len(part) > 0 {
				fmt.Fprintf(w, "data:%s\r\n", part)
			}
		}
		fmt.Fprint(w, "\r\n")
	})
	set := newSet(t, toolserver.Options{Memory: memory}, toolserver.Config{Name: "http", URL: address}, child(t, "stdio", "odd"))
	for tool, odd := range oddAnswers {
		for _, call := range [][2]string{{"http", tool}, {"http", "event " + tool}, {"stdio", tool}} {
			r := set.Call(t.Context(), "default", call[0], call[1], []byte("{}"))
			if (r.Outcome == toolserver.OK) != odd.ok || string(r.Text) != odd.want {
				t.Errorf("%s: %s %.200s, want %.200s", call, r.Outcome, r.Text, odd.want)
			}
			r.Release()
			if n := memory.inUse(); n != 0 {
				t.Fatalf("%s: %d bytes are still held", call, n)
			}
		}
	}
	r := set.Call(t.Context(), "default", "stdio", "lines", []byte("{}"))
	if string(r.Text) != `{"a":[{"c":1}],"b":{}}` {
		t.Errorf("a message of several lines: %s %.200s", r.Outcome, r.Text)
	}
	if n := connected.Load(); n != 1 {
		t.Errorf("there were %d connections", n)
	}
}

// serveOdd is a stdio server with odd answers.
func serveOdd(in io.Reader, out io.Writer) {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ Name string }
		}
		if json.Unmarshal(lines.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		switch m.Method {
		case "initialize":
			fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"t","version":"1"}}}`+"\n", m.ID)
		case "tools/list":
			fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[]}}`+"\n", m.ID)
		case "tools/call":
			if m.Params.Name == "lines" {
				fmt.Fprintf(out, "{\n  \"jsonrpc\":\"2.0\",\n  \"id\":%s,\n  \"result\":{\"structuredContent\":{\"a\":\n[{\"c\":1}]\n,\"b\":\n{}\n}}\n}\n", m.ID)
				continue
			}
			fmt.Fprintln(out, strings.Replace(oddAnswers[m.Params.Name].answer, "%s", string(m.ID), 1))
		default:
			fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`+"\n", m.ID)
		}
	}
}

// withoutDiscover drops server/discover from the lines of a client. Its answer is sent
// when initialize arrives.
func withoutDiscover(in io.Reader, out io.Writer) io.Reader {
	rest, w := io.Pipe()
	go func() {
		var late json.RawMessage
		for lines := bufio.NewScanner(in); lines.Scan(); {
			var m struct {
				ID     json.RawMessage
				Method string
			}
			_ = json.Unmarshal(lines.Bytes(), &m)
			if m.Method == "server/discover" {
				late = m.ID
				continue
			}
			if m.Method == "initialize" && late != nil {
				fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`+"\n", late)
			}
			fmt.Fprintf(w, "%s\n", lines.Bytes())
		}
		w.Close()
	}()
	return rest
}

// slowStart is the time for which a slowly starting server reads nothing.
const slowStart = 400 * time.Millisecond

// withoutInitialize answers initialize like a server that knows only revision
// 2026-07-28, and returns the other lines of a client.
func withoutInitialize(in io.Reader, out io.Writer) io.ReadCloser {
	rest, w := io.Pipe()
	go func() {
		for lines := bufio.NewScanner(in); lines.Scan(); {
			var m struct {
				ID     json.RawMessage
				Method string
			}
			_ = json.Unmarshal(lines.Bytes(), &m)
			if m.Method == "initialize" {
				fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`+"\n", m.ID)
				continue
			}
			fmt.Fprintf(w, "%s\n", lines.Bytes())
		}
		w.Close()
	}()
	return rest
}

// TestWaitForDiscovery requires a connection to a server that does not answer an unknown
// method, and to a server that knows no other first request and starts slowly.
func TestWaitForDiscovery(t *testing.T) {
	// A third of the time is for the method that one server does not know. The other
	// server has more time to start, because a busy machine is slow.
	set := newSet(t, toolserver.Options{ConnectTimeout: 9 * time.Second}, child(t, "old", "ignores discover"))
	other := newSet(t, toolserver.Options{ConnectTimeout: time.Minute}, child(t, "new", "starts slowly"))
	if r := set.Call(t.Context(), "default", "old", "null error", []byte("{}")); r.Outcome != toolserver.OK || string(r.Text) != `"a"` {
		t.Errorf("a server that ignores server/discover: %s %s", r.Outcome, r.Text)
	}
	if r := other.Call(t.Context(), "default", "new", "echo", []byte(`{"text":"x"}`)); r.Outcome != toolserver.OK {
		t.Errorf("a server that starts slowly: %s %s", r.Outcome, r.Text)
	}
}

// A response that is no answer to its call fails that call. It ends no connection, and
// is no answer to another call.
func TestResponsesThatAreNoAnswers(t *testing.T) {
	other := make(chan json.RawMessage, 1)
	release := make(chan struct{})
	address, connected := rpc(t, func(w http.ResponseWriter, _ *http.Request, id json.RawMessage, tool string) {
		answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}`, id, tool)
		switch tool {
		case "patient":
			other <- id
			<-release
			fmt.Fprint(w, answer)
		case "number":
			fmt.Fprint(w, "17")
		case "more", "event more": // the SDK reads the first value, and ignores the rest
			answer = strings.Replace(answer, tool, strings.Repeat("x", 100<<10), 1) + " {}"
			if tool == "event more" {
				w.Header().Set("Content-Type", "text/event-stream")
				answer = "data: " + answer + "\n\n"
			}
			fmt.Fprint(w, answer)
		case "request":
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		case "other", "event other":
			stolen := strings.Replace(answer, string(id), string(<-other), 1)
			if tool == "event other" {
				w.Header().Set("Content-Type", "text/event-stream")
				stolen = "data: " + stolen + "\n\n"
			}
			fmt.Fprint(w, stolen)
		case "html":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<p>down for maintenance")
		case "accepted":
			w.Header().Del("Content-Type")
			w.WriteHeader(http.StatusAccepted)
		case "large":
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		case "busy":
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	set := newSet(t, toolserver.Options{}, toolserver.Config{Name: "s", URL: address})
	set.Servers(t.Context(), "default")
	patient := make(chan toolserver.Result)
	for _, call := range [][2]string{
		{"number", "not a JSON-RPC message"}, {"more", "not a JSON-RPC message"}, {"event more", "not a JSON-RPC message"}, {"request", "not a JSON-RPC message"},
		{"other", "not a JSON-RPC message"}, {"event other", "without response"}, {"html", `the content type "text/html"`},
		{"accepted", "answered 202"}, {"large", "413"}, {"busy", "429"},
	} {
		steals := strings.HasSuffix(call[0], "other")
		if steals {
			go func() { patient <- set.Call(t.Context(), "quiet", "s", "patient", []byte("{}")) }()
		}
		r := set.Call(t.Context(), "loud", "s", call[0], []byte("{}"))
		if r.Outcome != toolserver.Failed || !strings.Contains(string(r.Text), call[1]) || strings.Contains(string(r.Text), "not available") != (call[0] == "event other") {
			t.Errorf("%s: %s %.200s", call[0], r.Outcome, r.Text)
		}
		if steals {
			release <- struct{}{}
			if r := <-patient; string(r.Text) != `"patient"` {
				t.Errorf("beside %s: %s %s", call[0], r.Outcome, r.Text)
			}
		}
	}
	if n := connected.Load(); n != 1 {
		t.Errorf("there were %d connections", n)
	}
}

// A server that sends requests endlessly and reads no response does not make Daybook
// open a connection for each request.
func TestRequestsOfServersAreBounded(t *testing.T) {
	var responses atomic.Int64
	full, release := make(chan struct{}), make(chan struct{})
	address, _ := rpc(t, func(w http.ResponseWriter, _ *http.Request, id json.RawMessage, tool string) {
		if id == nil {
			if responses.Add(1) == 30 {
				close(full)
			}
			<-release
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 500 {
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"ping\"}\n\n", i)
		}
		<-full
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"a\"}]}}\n\n", id)
	})
	set := newSet(t, toolserver.Options{}, toolserver.Config{Name: "s", URL: address})
	if r := set.Call(t.Context(), "default", "s", "ask", []byte("{}")); string(r.Text) != `"a"` {
		t.Errorf("%s %s", r.Outcome, r.Text)
	}
	if n := responses.Load(); n > 32 {
		t.Errorf("%d responses are on their way", n)
	}
	close(release)
}

// If a stream breaks off, its answer is requested again if the server keeps it.
func TestBrokenStreamIsResumed(t *testing.T) {
	var asked json.RawMessage
	address, _ := rpc(t, func(w http.ResponseWriter, _ *http.Request, id json.RawMessage, tool string) {
		w.Header().Set("Content-Type", "text/event-stream")
		if tool == "rest" {
			fmt.Fprintf(w, "id: 2\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"a\"}]}}\n\n", asked)
			return
		}
		asked = id
		fmt.Fprint(w, "id: 1\nretry: 1\ndata:\n\nid: 2\ndata: {\"jsonrpc\"")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	set := newSet(t, toolserver.Options{}, toolserver.Config{Name: "s", URL: address})
	if r := set.Call(t.Context(), "default", "s", "break", []byte("{}")); string(r.Text) != `"a"` {
		t.Errorf("%s %s", r.Outcome, r.Text)
	}
}

// Over SSE a call that the server refuses fails immediately, and the connection stays.
func TestRefusedPostsOverSSE(t *testing.T) {
	config := remote(t, "sse", toolserver.SSE)
	target, err := url.Parse(config.URL)
	if err != nil {
		t.Fatal(err)
	}
	var refuse atomic.Bool
	var streams atomic.Int64
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: target.Scheme, Host: target.Host})
	}, ErrorLog: stdlog.New(io.Discard, "", 0)}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodGet:
			streams.Add(1)
		case refuse.Load():
			http.Error(w, "no", http.StatusBadGateway)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	config.URL = front.URL + "/mcp"
	set := newSet(t, toolserver.Options{}, config)
	for _, refused := range []bool{false, true, false} {
		refuse.Store(refused)
		r := set.Call(t.Context(), "default", "sse", "echo", []byte(`{"text":"a"}`))
		if want := map[bool]string{false: `"a"`, true: "the server answered 502 Bad Gateway"}[refused]; string(r.Text) != want {
			t.Errorf("%s %s, want %s", r.Outcome, r.Text, want)
		}
	}
	if n := streams.Load(); n != 1 {
		t.Errorf("there were %d connections", n)
	}
}
