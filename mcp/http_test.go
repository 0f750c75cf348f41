package mcp_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"daybook/ledger"
	"daybook/mcp"
)

// post sends one message to the Streamable HTTP endpoint and returns status, header and
// body of the response.
func post(t testing.TB, url, body string, header ...string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
			continue
		}
		req.Header.Add(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(b)
}

const initializeLine = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"curl","version":"0"}}}`

// serveHTTP serves both HTTP transports, mounted as in the product.
func serveHTTP(t testing.TB, s *mcp.Server) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/mcp", s.Handler())
	mux.Handle("/sse", s.SSEHandler())
	srv := httptest.NewServer(mux)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		srv.CloseClientConnections()
		srv.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return srv.URL
}

// TestForeignRequests checks that a web page cannot reach the tools.
func TestForeignRequests(t *testing.T) {
	t.Parallel()
	plain := serveHTTP(t, new(fakeStack).serve(t, mcp.Options{}))
	named := serveHTTP(t, new(fakeStack).serve(t, mcp.Options{Hosts: []string{"daybook.example"}}))
	port := serveHTTP(t, new(fakeStack).serve(t, mcp.Options{Hosts: []string{"daybook.example:8443"}}))
	for _, c := range []struct {
		name, url string
		header    []string
		want      int
	}{
		{"plain", plain, nil, 200},
		{"own origin", plain, []string{"Origin", plain}, 200},
		{"foreign origin", plain, []string{"Origin", "https://evil.example"}, 403},
		{"opaque origin", plain, []string{"Origin", "null"}, 403},
		{"cross-site", plain, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"foreign host", plain, []string{"Host", "evil.example"}, 403},
		{"foreign host, others allowed", named, []string{"Host", "evil.example:80"}, 403},
		{"allowed host", named, []string{"Host", "Daybook.Example:8080"}, 200},
		{"loopback, others allowed", named, nil, 200},
		{"IPv6 loopback", named, []string{"Host", "[::1]:8080"}, 200},
		{"allowed host and port", port, []string{"Host", "daybook.example:8443"}, 200},
		{"allowed host, another port", port, []string{"Host", "daybook.example"}, 403},
		{"allowed host, foreign origin", named, []string{"Host", "daybook.example", "Origin", "https://b.example"}, 403},
		{"allowed host, own origin", named, []string{"Host", "daybook.example", "Origin", "https://daybook.example"}, 200},
	} {
		if got, _, body := post(t, c.url+"/mcp", initializeLine, c.header...); got != c.want {
			t.Errorf("%s: %d %s, want %d", c.name, got, body, c.want)
		}
	}
	for _, path := range []string{"/mcp", "/sse"} { // GET opens a stream
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, plain+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Origin", "https://evil.example")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusForbidden {
			t.Errorf("GET %s from a foreign origin: %s", path, res.Status)
		}
	}
}

// TestSessionHeader checks in each revision which request sets the session name.
func TestSessionHeader(t *testing.T) {
	t.Parallel()
	var subs []ledger.Submission
	book := &fakeStack{submit: func(_ context.Context, s ledger.Submission) (ledger.Receipt, error) {
		subs = append(subs, s)
		return ledger.Receipt{ExecutionID: "one", Seq: 1}, nil
	}}
	url := serveHTTP(t, book.serve(t, mcp.Options{SessionID: "only for stdio"})) + "/mcp"
	const call = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run_js","arguments":{"code":"1"}}}`
	run := func(header ...string) ledger.Submission {
		t.Helper()
		before := len(subs)
		status, _, body := post(t, url, call, header...)
		if status != 200 || len(subs) != before+1 {
			t.Fatalf("run_js: %d %s", status, body)
		}
		return subs[before]
	}

	status, h, body := post(t, url, initializeLine, "X-MCP-Session-Id", "my-agent-session")
	if status != 200 {
		t.Fatalf("initialize: %d %s", status, body)
	}
	id := h.Get("Mcp-Session-Id")
	for _, later := range [][]string{nil, {"X-MCP-Session-Id", "another"}, {"X-MCP-Session-Id", " \x01bad"}} {
		if len(later) == 2 && strings.Contains(later[1], "\x01") {
			later[1] = "much too long " + strings.Repeat("x", 200)
		}
		s := run(append(later, "Mcp-Session-Id", id)...)
		if s.Session != "my-agent-session" {
			t.Errorf("later header %q: session %q", later, s.Session)
		}
		if s.Actor.Transport != "mcp-http" || s.Actor.Client != "curl/0" || s.Actor.Principal != "anonymous" || s.Actor.Address != "127.0.0.1" {
			t.Errorf("actor %+v", s.Actor)
		}
	}

	_, h, _ = post(t, url, initializeLine)
	if s := run("Mcp-Session-Id", h.Get("Mcp-Session-Id"), "X-MCP-Session-Id", "late"); s.Session != "" {
		t.Errorf("a session without a name took %q from a later request", s.Session)
	}
	if s := run("Mcp-Session-Id", h.Get("Mcp-Session-Id"), "Daybook-Remote-Address", "6.6.6.6",
		"Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"); s.Actor.Address != "127.0.0.1" || !strings.HasPrefix(s.Traceparent, "00-0af") {
		t.Errorf("forged address: %+v, traceparent %q", s.Actor, s.Traceparent)
	}

	const modern = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run_js","arguments":{"code":"1"},"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"new","version":"2"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	for _, name := range []string{"first", "second", ""} {
		header := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "run_js"}
		if name != "" {
			header = append(header, "X-MCP-Session-Id", name)
		}
		before := len(subs)
		if status, _, body := post(t, url, modern, header...); status != 200 || len(subs) != before+1 {
			t.Fatalf("2026-07-28: %d %s", status, body)
		}
		if s := subs[before]; s.Session != name || s.Actor.Client != "new/2" {
			t.Errorf("2026-07-28 with %q: session %q, client %q", name, s.Session, s.Actor.Client)
		}
	}
}

// TestBadSessionHeader checks that an invalid name is refused on the request that would
// set it.
func TestBadSessionHeader(t *testing.T) {
	t.Parallel()
	url := serveHTTP(t, new(fakeStack).serve(t, mcp.Options{})) + "/mcp"
	for _, header := range [][]string{
		{"X-MCP-Session-Id", strings.Repeat("x", 129)},
		{"X-MCP-Session-Id", "tab\tin it"},
		{"X-MCP-Session-Id", "one", "X-MCP-Session-Id", "two"},
		{"X-MCP-Session-Id", strings.Repeat("x", 129), "Mcp-Protocol-Version", "2026-07-28"},
	} {
		status, _, body := post(t, url, initializeLine, header...)
		if status != http.StatusBadRequest || !strings.Contains(body, "X-MCP-Session-Id") || !strings.Contains(body, `"error"`) {
			t.Errorf("%.40q: %d %s", header, status, body)
		}
	}
}

// TestHTTPLimits checks sizes, and requests after Close.
func TestHTTPLimits(t *testing.T) {
	t.Parallel()
	s := new(fakeStack).serve(t, mcp.Options{})
	url := serveHTTP(t, s) + "/mcp"
	if status, _, body := post(t, url, strings.Repeat(" ", 50<<20), "Mcp-Protocol-Version", "2026-07-28"); status != http.StatusRequestEntityTooLarge {
		t.Errorf("50 MiB: %d %s", status, body)
	}
	if status, _, body := post(t, url, `{"jsonrpc":`); status != http.StatusBadRequest {
		t.Errorf("half a message: %d %s", status, body)
	}
	if status, _, body := post(t, url, initializeLine, "Mcp-Session-Id", "gone"); status != http.StatusNotFound {
		t.Errorf("unknown transport session: %d %s", status, body)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if status, h, body := post(t, url, initializeLine); status != http.StatusServiceUnavailable || h.Get("Retry-After") == "" {
		t.Errorf("after Close: %d %s", status, body)
	}
}

// TestDisconnectCancels closes the only stream for the answer of a stateless run: in the
// revision without sessions this cancels the call.
func TestDisconnectCancels(t *testing.T) {
	t.Parallel()
	run := newRun("")
	submitted := make(chan struct{})
	book := run.stack()
	submit := book.submit
	book.submit = func(ctx context.Context, s ledger.Submission) (ledger.Receipt, error) {
		close(submitted)
		return submit(ctx, s)
	}
	url := serveHTTP(t, book.serve(t, mcp.Options{Stateless: true})) + "/mcp"
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_js","arguments":{"code":"1"},"_meta":{`+
			`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "run_js"} {
		req.Header.Set(k, v)
	}
	go func() {
		<-submitted
		hangUp()
	}()
	if res, err := http.DefaultClient.Do(req); err == nil {
		// The header may have arrived; the body does not.
		if _, err := io.Copy(io.Discard, res.Body); err == nil {
			t.Error("the call was answered")
		}
		res.Body.Close()
	}
	if id := <-run.cancelled; id != "one" {
		t.Errorf("cancelled %q", id)
	}
}

// A notification that the server does not know is ignored over every HTTP transport. A
// request without its id is not a notification.
func TestUnknownNotificationsAreIgnored(t *testing.T) {
	t.Parallel()
	const unknown = `{"jsonrpc":"2.0","method":"notifications/foo","params":{"a":1}}`
	var runs atomic.Int64
	url := serveHTTP(t, counting(&runs).serve(t, mcp.Options{}))
	_, _, endpoint := openLegacy(t, url)
	post(t, endpoint, initializeLine)
	with := session(t, url+"/mcp", "2025-03-26")
	modern := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method"}
	for name, c := range map[string]struct {
		url, body string
		header    []string
		status    int
		want      string
	}{
		"alone":               {url + "/mcp", unknown, with, 202, ""},
		"without params":      {url + "/mcp", `{"jsonrpc":"2.0","method":"foo"}`, with, 202, ""},
		"in a batch":          {url + "/mcp", `[` + unknown + `,` + callLine(1) + `,` + unknown + `]`, with, 200, "run 1"},
		"a batch of them":     {url + "/mcp", `[` + unknown + `,` + unknown + `]`, with, 202, ""},
		"legacy":              {endpoint, unknown, nil, 202, ""},
		"stateless":           {url + "/mcp", unknown, append(modern, "notifications/foo"), 202, ""},
		"with another header": {url + "/mcp", unknown, append(modern, "notifications/bar"), 400, "notifications/foo"},
		"without its id":      {url + "/mcp", `{"jsonrpc":"2.0","method":"tools/list"}`, with, 400, "missing id"},
		"an unknown session":  {url + "/mcp", unknown, []string{"Mcp-Session-Id", "NONE"}, 404, ""},
		"of no JSON-RPC":      {url + "/mcp", `{"method":"notifications/foo"}`, with, 400, ""},
	} {
		status, _, body := post(t, c.url, c.body, c.header...)
		if status != c.status || !strings.Contains(body, c.want) || status == http.StatusAccepted && body != "" {
			t.Errorf("%s: %d %.300s, want %d and %q", name, status, body, c.status, c.want)
		}
	}
}
