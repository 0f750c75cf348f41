package embed_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/embed"
)

// way describes how a client reaches the server.
type way struct {
	transport, revision string
	named               bool
}

func (w way) String() string { return fmt.Sprintf("%s %s named=%t", w.transport, w.revision, w.named) }

// ways lists all ways in which a connection has a context.
func ways() []way {
	var list []way
	for _, w := range []way{{transport: "stdio", revision: "2025-11-25"}, {transport: "stdio", revision: "2026-07-28"}, {transport: "http", revision: "2025-11-25"}, {transport: "sse", revision: "2024-11-05"}} {
		list = append(list, w, way{w.transport, w.revision, true})
	}
	return append(list, way{"http", "2026-07-28", true})
}

// namedTransport sends a session name with every request.
type namedTransport string

func (n namedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if n != "" {
		r.Header.Set("X-MCP-Session-Id", string(n))
	}
	return http.DefaultTransport.RoundTrip(r)
}

// person is a client with a secret of its own.
type person struct {
	t    *testing.T
	way  way
	word string
	book *embed.Daybook
	ss   *sdk.ClientSession
}

func (p *person) connect(book *embed.Daybook) {
	p.t.Helper()
	p.book = book
	name := ""
	if p.way.named {
		name = "session of " + p.word
	}
	web := &http.Client{Transport: namedTransport(name)}
	var transport sdk.Transport
	switch p.way.transport {
	case "http":
		transport = &sdk.StreamableClientTransport{Endpoint: book.URL() + "/mcp", HTTPClient: web}
	case "sse":
		transport = &sdk.SSEClientTransport{Endpoint: book.URL() + "/sse", HTTPClient: web}
	default:
		fromServer, serverOut := io.Pipe()
		serverIn, toServer := io.Pipe()
		go func() {
			_ = embed.Attach(context.Background(), embed.Client{DataDir: book.DataDir(), SessionID: name}, serverIn, serverOut) // it ends with the test
			serverOut.Close()
		}()
		transport = &sdk.IOTransport{Reader: fromServer, Writer: toServer}
		p.t.Cleanup(func() { serverIn.Close(); fromServer.Close() })
	}
	var err error
	p.ss, err = sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(within(p.t), transport, &sdk.ClientSessionOptions{ProtocolVersion: p.way.revision})
	if err != nil {
		p.t.Fatalf("%s: %v", p.way, err)
	}
	p.t.Cleanup(func() { _ = p.ss.Close() })
}

// call calls a tool and returns the complete answer.
func (p *person) call(tool string, args map[string]any) (text string, isError bool) {
	p.t.Helper()
	res, err := p.ss.CallTool(within(p.t), &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		p.t.Errorf("%s: %s: %v", p.way, tool, err)
		return "", true
	}
	raw, err := json.Marshal(res)
	if err != nil {
		p.t.Error(err)
	}
	return string(raw), res.IsError
}

func (p *person) context() (all string, custom map[string]string) {
	p.t.Helper()
	res, err := p.ss.CallTool(within(p.t), &sdk.CallToolParams{Name: "get_context", Arguments: map[string]any{}})
	if err != nil || res.IsError {
		p.t.Errorf("%s: get_context: %+v, %v", p.way, res, err)
		return "", nil
	}
	all = res.Content[0].(*sdk.TextContent).Text
	var c struct{ Custom map[string]string }
	if err := json.Unmarshal([]byte(all), &c); err != nil {
		p.t.Errorf("%s: %v in %s", p.way, err, all)
	}
	return all, c.Custom
}

// work uses the context, a heap and a session of the client's own.
func (p *person) work(rounds int) {
	p.t.Helper()
	for round := range rounds {
		if text, bad := p.call("set_context", map[string]any{"custom": map[string]any{fmt.Sprint("key", round): p.word}}); bad {
			p.t.Errorf("%s: set_context: %s", p.way, text)
		}
		if got := p.run(fmt.Sprintf("globalThis.mine = %q; mine", p.word)); got != p.word {
			p.t.Errorf("%s: a run gives %q", p.way, got)
		}
		p.call("query_heaps_by_tags", map[string]any{"tags": map[string]string{"of": p.word}})
	}
	opened, bad := p.call("open_session", map[string]any{"intent": "of " + p.word, "seeds": []string{"builtin"}})
	if bad || !strings.Contains(opened, "s0") {
		p.t.Errorf("%s: open_session: %s", p.way, opened)
	}
	if text, bad := p.call("set_context", map[string]any{"logical_session_ref": "s0", "custom": map[string]any{"logical": p.word}}); bad {
		p.t.Errorf("%s: set_context of a logical session: %s", p.way, text)
	}
}

// check requires that no data of another client is in any answer to this client.
func (p *person) check(others []*person, rounds int) {
	p.t.Helper()
	all, custom := p.context()
	logical, _ := p.call("get_context", map[string]any{"logical_session_ref": "s0"})
	snapshots, _ := p.call("list_session_snapshots", map[string]any{})
	if len(custom) != rounds || !strings.Contains(logical, p.word) || strings.Contains(logical, "key0") {
		p.t.Errorf("%s has %v, and in its logical session %s", p.way, custom, logical)
	}
	for _, other := range others {
		if other == p {
			continue
		}
		for what, text := range map[string]string{"context": all, "logical context": logical, "session log": snapshots} {
			if strings.Contains(text, other.word) {
				p.t.Errorf("%s: the %s contains data of %s: %s", p.way, what, other.way, text)
			}
		}
		if other.way.named {
			uri := "session://" + strings.ReplaceAll("session of "+other.word, " ", "%20") + "/context"
			if res, err := p.ss.ReadResource(within(p.t), &sdk.ReadResourceParams{URI: uri}); err == nil {
				p.t.Errorf("%s reads %s: %+v", p.way, uri, res)
			}
		}
	}
	// No tool takes an argument that names the data of another client.
	if text, bad := p.call("get_context", map[string]any{"session_id": strings.Repeat("a", 64)}); !bad {
		p.t.Errorf("%s: get_context takes an id: %s", p.way, text)
	}
	if text, bad := p.call("get_context", map[string]any{"logical_session_ref": strings.Repeat("a", 64)}); !bad {
		p.t.Errorf("%s: get_context takes the id of a session: %s", p.way, text)
	}
	if text, bad := p.call("get_context", map[string]any{"logical_session_ref": "s1"}); !bad {
		p.t.Errorf("%s: get_context takes another's reference: %s", p.way, text)
	}
	// A fresh isolate has no state of a client.
	if got := p.run("typeof globalThis.mine"); got != "undefined" {
		p.t.Errorf("%s: a fresh isolate has %s", p.way, got)
	}
}

// run runs a script to its end and returns its result.
func (p *person) run(code string) string {
	p.t.Helper()
	var accepted struct {
		ID string `json:"execution_id"`
	}
	res, err := p.ss.CallTool(within(p.t), &sdk.CallToolParams{Name: "run_js", Arguments: map[string]any{"code": code}})
	if err != nil || res.IsError || json.Unmarshal([]byte(res.Content[0].(*sdk.TextContent).Text), &accepted) != nil {
		p.t.Errorf("%s: run_js: %+v, %v", p.way, res, err)
		return ""
	}
	var ended struct{ Result *string }
	_, body := get(p.t, p.book.URL()+"/api/executions/"+accepted.ID+"?wait=60")
	if err := json.Unmarshal([]byte(body), &ended); err != nil || ended.Result == nil {
		p.t.Errorf("%s: %v in %s", p.way, err, body)
		return ""
	}
	return *ended.Result
}

// Clients over every transport work concurrently. No client sees the context, the logical
// session, the log or a heap of another one. After a restart, clients with a session name find
// their data again, and the others find none.
func TestContextsAreIsolated(t *testing.T) {
	t.Parallel()
	opts := embed.Options{DataDir: t.TempDir(), HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}}
	book := start(t, opts)
	const rounds = 3
	var people []*person
	for i, w := range ways() {
		people = append(people, &person{t: t, way: w, word: fmt.Sprintf("canary%cword", 'a'+i)})
	}
	for _, p := range people {
		p.connect(book)
	}
	var wg sync.WaitGroup
	for _, p := range people {
		wg.Go(func() { p.work(rounds) })
	}
	wg.Wait()
	before := map[*person]string{}
	for _, p := range people {
		wg.Go(func() { p.check(people, rounds) })
	}
	wg.Wait()
	for _, p := range people {
		before[p], _ = p.context()
		if err := p.ss.Close(); err != nil {
			t.Logf("%s: close: %v", p.way, err)
		}
	}
	closeBook(t, book)
	book = start(t, opts)
	for _, p := range people {
		p.connect(book)
		all, custom := p.context()
		switch {
		case p.way.named:
			if diff := cmp.Diff(before[p], all); diff != "" {
				t.Errorf("%s after a restart:\n%s", p.way, diff)
			}
		case len(custom) != 0 || strings.Contains(all, "canary"):
			t.Errorf("%s is a new connection, with %s", p.way, all)
		}
	}
	for _, p := range people {
		if p.way.named {
			p.check(people, rounds)
		}
	}
}
