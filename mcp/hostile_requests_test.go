package mcp_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"daybook/ledger"
	"daybook/mcp"
)

// methodParams has the members of the params of each method, with valid values.
var methodParams = map[string]map[string]string{
	"initialize":               {"protocolVersion": `"2025-11-25"`, "capabilities": `{}`, "clientInfo": `{"name":"x","version":"1"}`},
	"ping":                     {},
	"tools/list":               {"cursor": `""`},
	"tools/call":               {"name": `"list_sessions"`, "arguments": `{}`, "task": `null`},
	"resources/list":           {"cursor": `""`},
	"resources/templates/list": {"cursor": `""`},
	"resources/read":           {"uri": `"session://x"`},
	"resources/subscribe":      {"uri": `"session://x"`},
	"resources/unsubscribe":    {"uri": `"session://x"`},
	"prompts/list":             {"cursor": `""`},
	"prompts/get":              {"name": `"x"`, "arguments": `{"a":"b"}`},
	"completion/complete":      {"ref": `{"type":"ref/prompt","name":"x"}`, "argument": `{"name":"a","value":"b"}`, "context": `{"arguments":{}}`},
	"logging/setLevel":         {"level": `"error"`},
	"tasks/get":                {"taskId": `"x"`},
	"tasks/cancel":             {"taskId": `"x"`},
	"tasks/result":             {"taskId": `"x"`},
	"tasks/update":             {"taskId": `"x"`},
	"tasks/list":               {"cursor": `""`},
	"notifications/cancelled":  {"requestId": `1`},
	"no/such/method":           {"a": `1`},
}

// hostileParams returns params of a method that are wrong in one place, or that name
// what the caller must not reach.
func hostileParams(members map[string]string) (list []string) {
	body := func(name, value string) string {
		var parts []string
		for k, v := range members {
			if k != name {
				parts = append(parts, fmt.Sprintf("%q:%s", k, v))
			}
		}
		if value != "" {
			parts = append(parts, `"`+name+`":`+value)
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	deep := strings.Repeat("[", 400) + strings.Repeat("]", 400)
	wrong := []string{`null`, `5`, `1e400`, `true`, `[]`, `["a"]`, `{}`, `{"__proto__":{"a":1}}`, `{"type":5,"name":5,"value":5,"arguments":5}`, `"\ud800"`, deep}
	list = []string{`null`, `5`, `-1e308`, `"x"`, `true`, `[]`, `[{"uri":1}]`, `{}`, deep,
		body("_meta", `5`), body("_meta", `[]`), body("_meta", `{"progressToken":{}}`), body("_meta", `{"\u0000":"\ud800"}`),
		body("__proto__", `{"name":"run_js"}`), body("constructor", deep), body(strings.Repeat("k", 1<<16), `1`)}
	for name := range members {
		list = append(list, body(name, "")) // without it
		for _, v := range wrong {
			list = append(list, body(name, v))
		}
		for kind, v := range hostileTexts {
			if kind == "1 MiB" {
				v = `"` + strings.Repeat("x", 1<<14) + `"` // there are many
			}
			list = append(list, body(name, v))
		}
		for _, scheme := range []string{"execution://", "heap://", "session://", "file://", "http://169.254.169.254/"} {
			for _, path := range []string{"", "/", "../../etc/passwd", "%2e%2e%2f", "%00", "%zz", "a%0ab", "*.%3e", "x/output", "x/output/output", "x?y#z", strings.Repeat("a", 1<<16)} {
				if name == "uri" {
					list = append(list, body(name, `"`+scheme+path+`"`))
				}
			}
		}
	}
	return list
}

// askers send one message over a transport and return its answer: a JSON-RPC message, or
// the body of an HTTP error.
var askers = map[string]func(t testing.TB, s *mcp.Server) func(method, params string) []byte{
	"stdio": func(t testing.TB, s *mcp.Server) func(string, string) []byte {
		p := openPipe(t, s, "")
		p.initialize()
		return func(method, params string) []byte {
			p.send(message(method, params))
			m := p.receive()
			return []byte(encode(t, m))
		}
	},
	"http": func(t testing.TB, s *mcp.Server) func(string, string) []byte {
		url := serveHTTP(t, s) + "/mcp"
		_, h, _ := post(t, url, strings.Replace(initializeLine, "2024-11-05", "2025-11-25", 1))
		id := h.Get("Mcp-Session-Id")
		post(t, url, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "Mcp-Session-Id", id)
		return func(method, params string) []byte {
			if method == "initialize" {
				_, _, body := post(t, url, message(method, params))
				return answerIn(body)
			}
			_, _, body := post(t, url, message(method, params), "Mcp-Session-Id", id)
			return answerIn(body)
		}
	},
	"http, 2026-07-28": func(t testing.TB, s *mcp.Server) func(string, string) []byte {
		url := serveHTTP(t, s) + "/mcp"
		return func(method, params string) []byte {
			const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
			if rest, ok := strings.CutPrefix(params, "{"); ok && !strings.Contains(params, `"_meta"`) {
				comma := ","
				if rest == "}" {
					comma = ""
				}
				params = "{" + meta + comma + rest
			}
			header := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method}
			var p struct{ Name, URI, TaskID string }
			if json.Unmarshal([]byte(params), &p) == nil {
				for _, name := range []string{p.Name, p.URI, p.TaskID} {
					if name != "" && len(name) < 1000 && !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) {
						header = append(header, "Mcp-Name", name)
					}
				}
			}
			_, _, body := post(t, url, message(method, params), header...)
			return answerIn(body)
		}
	},
	"sse": func(t testing.TB, s *mcp.Server) func(string, string) []byte {
		url := serveHTTP(t, s)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/sse", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { res.Body.Close() })
		stream := bufio.NewReader(res.Body)
		next := func() string {
			for {
				line, err := stream.ReadString('\n')
				if err != nil {
					t.Fatalf("the stream ended: %v", err)
				}
				if data, ok := strings.CutPrefix(line, "data: "); ok {
					return strings.TrimSpace(data)
				}
			}
		}
		endpoint := url + next()
		ask := func(message string) []byte {
			status, _, body := post(t, endpoint, message)
			if status >= 300 {
				return []byte(body)
			}
			return []byte(next())
		}
		ask(initializeLine)
		post(t, endpoint, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		return func(method, params string) []byte { return ask(message(method, params)) }
	},
}

func message(method, params string) string {
	if params == "" {
		return `{"jsonrpc":"2.0","id":"x","method":"` + method + `"}`
	}
	return `{"jsonrpc":"2.0","id":"x","method":"` + method + `","params":` + params + `}`
}

// answerIn returns the message in a body, which may be a stream of events.
func answerIn(body string) []byte {
	for line := range strings.Lines(body) {
		if data, ok := strings.CutPrefix(line, "data: "); ok && strings.TrimSpace(data) != "" {
			body = data
		}
	}
	return []byte(body)
}

// TestHostileRequests sends every method every kind of wrong params, over every
// transport. Each request is answered with a result or a message, and none reaches the
// ledger.
func TestHostileRequests(t *testing.T) {
	t.Parallel()
	for transport, open := range askers {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			book := openIdleStack(t, ledger.Options{})
			ask := open(t, book.serve(t, mcp.Options{}))
			before := lastSeq(t, book)
			count := 0
			for method, members := range methodParams {
				for _, params := range hostileParams(members) {
					count++
					checkReply(t, fmt.Sprintf("%s %.80s", method, params), ask(method, params))
				}
			}
			for _, method := range []string{strings.Repeat("m", 1<<20), strings.Repeat(`\u0000`, 1<<10), `\ud800`, "", "tools/call ", "__proto__"} {
				checkReply(t, fmt.Sprintf("method %.20q", method), ask(method, `{}`))
			}
			for _, depth := range []int{1000, 5000} { // deeper than the SDK accepts; the answer has the request's id nevertheless
				nested := strings.Repeat("[", depth) + strings.Repeat("]", depth)
				for _, params := range []string{`{"name":"run_js","arguments":{"code":` + nested + `}}`, `{"name":"run_js","extra":` + nested + `}`} {
					raw := ask("tools/call", params)
					if !strings.Contains(string(raw), `"id":"x"`) || !strings.Contains(string(raw), "deeper than") {
						t.Errorf("%d levels: answered %s", depth, raw)
					}
				}
			}
			braces := ask("tools/call", `{"name":"get_execution","arguments":{"execution_id":"`+strings.Repeat(`{[\"`, 2000)+`"}}`)
			if strings.Contains(string(braces), "deeper than") { // braces in a text do not nest
				t.Errorf("braces in a text: %s", braces)
			}
			if after := lastSeq(t, book); after != before {
				t.Errorf("the ledger went from %d to %d", before, after)
			}
			t.Logf("%d requests", count)
		})
	}
}

// TestUnknownMethods checks the JSON-RPC code and the id in the answer to an unknown
// method, over every transport.
func TestUnknownMethods(t *testing.T) {
	t.Parallel()
	for transport, open := range askers {
		ask := open(t, new(fakeStack).serve(t, mcp.Options{}))
		for _, method := range []string{"no/such", "Ping", strings.Repeat("m", 100), strings.Repeat("m", 300)} {
			var m struct {
				ID    string
				Error struct {
					Code    int
					Message string
				}
			}
			raw := ask(method, `{}`)
			if err := json.Unmarshal(raw, &m); err != nil || m.ID != "x" || m.Error.Code != -32601 || !strings.Contains(m.Error.Message, method[:min(len(method), 60)]) || strings.Contains(m.Error.Message, "ping") {
				t.Errorf("%s, method %.20s of %d: %s", transport, method, len(method), raw)
			}
		}
	}
}

// TestMissingParams checks the JSON-RPC code and the id in the answer to each method
// that needs params, over every transport.
func TestMissingParams(t *testing.T) {
	t.Parallel()
	for transport, open := range askers {
		ask := open(t, new(fakeStack).serve(t, mcp.Options{}))
		for _, method := range []string{"tools/call", "resources/read", "resources/subscribe", "logging/setLevel", "initialize"} {
			for _, params := range []string{"", "null"} {
				raw := ask(method, params)
				if id, code, message := errorIn(t, raw); id != "x" || code != -32602 || message != method+" needs params: send an object with them" {
					t.Errorf("%s, %s with params %q: %s", transport, method, params, raw)
				}
			}
		}
	}
}

// TestSecondInitialize checks the code for an invalid request.
func TestSecondInitialize(t *testing.T) {
	t.Parallel()
	params := initializeLine[strings.Index(initializeLine, `{"protocolVersion"`) : len(initializeLine)-1]
	for _, transport := range []string{"stdio", "sse"} {
		raw := askers[transport](t, new(fakeStack).serve(t, mcp.Options{}))("initialize", params)
		if id, code, _ := errorIn(t, raw); id != "x" || code != -32600 {
			t.Errorf("%s: %s", transport, raw)
		}
	}
	url := serveHTTP(t, new(fakeStack).serve(t, mcp.Options{})) + "/mcp"
	_, h, _ := post(t, url, initializeLine)
	_, _, body := post(t, url, message("initialize", params), "Mcp-Session-Id", h.Get("Mcp-Session-Id"))
	if id, code, message := errorIn(t, answerIn(body)); id != "x" || code != -32600 || !strings.Contains(message, "initialized already") {
		t.Errorf("http: %s", body)
	}
}

func errorIn(t testing.TB, raw []byte) (id string, code int, message string) {
	t.Helper()
	var m struct {
		ID    string
		Error struct {
			Code    int
			Message string
		}
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Errorf("%v in %s", err, raw)
	}
	return m.ID, m.Error.Code, m.Error.Message
}

// checkReply checks that raw is a result, or an error with a message.
func checkReply(t testing.TB, what string, raw []byte) {
	t.Helper()
	var m struct {
		Result *toolResult
		Error  json.RawMessage
		Status int
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Errorf("%s: answered %.200q", what, raw)
		return
	}
	switch {
	case m.Status != 0: // a problem document
		var text string
		if err := json.Unmarshal(m.Error, &text); err != nil {
			t.Errorf("%s: %v in %s", what, err, raw)
		}
		checkMessage(t, what, text)
	case m.Error != nil:
		checkMessage(t, what, rpcErrorOf(t, m.Error))
	case m.Result == nil:
		t.Errorf("%s: neither result nor error: %.200s", what, raw)
	case m.Result.IsError && len(m.Result.Content) == 1:
		checkMessage(t, what, m.Result.Content[0].Text)
	}
}

// TestHTTPNotAMessage sends bodies that are not messages: the answer is a short parse
// error.
func TestHTTPNotAMessage(t *testing.T) {
	t.Parallel()
	url := serveHTTP(t, new(fakeStack).serve(t, mcp.Options{}))
	for _, path := range []string{"/mcp", "/sse?sessionid=gone"} {
		for _, revision := range []string{"2025-11-25", "2026-07-28"} {
			for _, body := range []string{`{"jsonrpc":`, `{"jsonrpc":"2.0","id":1,"method":5}`, `{"jsonrpc":2,"id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":{},"method":"ping"}`, "\x00\xff", "5", `"x"`, strings.Repeat("x", 1<<20), strings.Repeat("[", 1<<20), initializeLine + "}"} {
				status, _, answer := post(t, url+path, body, "Mcp-Protocol-Version", revision)
				if status != http.StatusBadRequest || !strings.Contains(answer, "-32700") || !strings.Contains(answer, `"id":null`) {
					t.Errorf("%s, %s, %.20q: %d %s", path, revision, body, status, answer)
				}
				checkReply(t, fmt.Sprintf("%.20q", body), []byte(answer))
			}
		}
	}
}

// TestBatches sends several messages in one body, which one old revision allows: each is
// checked.
func TestBatches(t *testing.T) {
	t.Parallel()
	url := serveHTTP(t, new(fakeStack).serve(t, mcp.Options{})) + "/mcp"
	_, h, _ := post(t, url, strings.Replace(initializeLine, "2024-11-05", "2025-03-26", 1))
	status, _, body := post(t, url, "[\n"+strings.Replace(message("tools/call", `{"name":5}`), `"x"`, "1", 1)+",\n"+strings.Replace(message("no/such", `{}`), `"x"`, "3", 1)+",\n"+strings.Replace(message("ping", `{}`), `"x"`, "2", 1)+"]",
		"Mcp-Session-Id", h.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", "2025-03-26")
	if status != http.StatusOK || !strings.Contains(body, "name must be a string") || !strings.Contains(body, `"id":2,"result"`) || !strings.Contains(body, `method not found: \"no/such\"`) {
		t.Errorf("%d %s", status, body)
	}
}

// TestHTTPProblems checks that a request refused before a message is read gets a problem
// document.
func TestHTTPProblems(t *testing.T) {
	t.Parallel()
	url := serveHTTP(t, new(fakeStack).serve(t, mcp.Options{}))
	for _, c := range []struct {
		method, path, body string
		header             []string
		status             int
	}{
		{"POST", "/mcp", initializeLine, []string{"Host", "evil.example"}, 403},
		{"POST", "/mcp", initializeLine, []string{"Origin", "https://evil.example"}, 403},
		{"GET", "/sse", "", []string{"Origin", "https://evil.example"}, 403},
		{"PUT", "/mcp", initializeLine, nil, 405},
		{"POST", "/mcp", initializeLine, []string{"Content-Type", "text/plain"}, 415},
		{"POST", "/mcp", initializeLine, []string{"Accept", "text/html"}, 400},
		{"POST", "/mcp", initializeLine, []string{"Mcp-Session-Id", "gone"}, 404},
		{"POST", "/mcp", initializeLine, []string{"Mcp-Protocol-Version", "1999-01-01"}, 400},
		{"GET", "/mcp", "", []string{"Accept", "text/event-stream"}, 400},
		{"POST", "/mcp", "", nil, 400},
		{"POST", "/mcp", "{}", nil, 400},
		{"POST", "/sse?sessionid=gone", initializeLine, nil, 404},
		{"DELETE", "/mcp", "", nil, 400},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, url+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		for i := 0; i < len(c.header); i += 2 {
			req.Header.Set(c.header[i], c.header[i+1])
			if c.header[i] == "Host" {
				req.Host = c.header[i+1]
			}
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		what := fmt.Sprintf("%s %s %q %q", c.method, c.path, c.header, c.body)
		var p struct {
			Type, Title, Detail, Error string
			Status                     int
		}
		if err := json.Unmarshal(raw, &p); err != nil || res.StatusCode != c.status || res.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %s, %s: %s", what, res.Status, res.Header.Get("Content-Type"), raw)
			continue
		}
		if p.Type != "about:blank" || p.Title == "" || p.Status != c.status || p.Detail != p.Error {
			t.Errorf("%s: %s", what, raw)
		}
		checkMessage(t, what, p.Error)
	}
}
