package acp_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/events"
)

// serveTools runs the test binary as an MCP server on its standard streams.
func serveTools(mode string) {
	if mode == "dies" {
		os.Exit(3)
	}
	_ = newTools(mode).Run(context.Background(), &sdk.StdioTransport{})
}

// newTools returns an MCP server whose tools return where they ran.
func newTools(name string) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: name, Version: "1"}, nil)
	yes, no := true, false
	add := func(tool string, hints *sdk.ToolAnnotations, answer func(text string) string) {
		sdk.AddTool(s, &sdk.Tool{Name: tool, Description: "Tests " + tool, Annotations: hints}, func(_ context.Context, _ *sdk.CallToolRequest, in struct {
			Text string `json:"text,omitempty"`
		}) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: answer(in.Text)}}}, nil, nil
		})
	}
	add("echo", &sdk.ToolAnnotations{ReadOnlyHint: true}, func(text string) string { return name + " says " + text })
	add("write", &sdk.ToolAnnotations{DestructiveHint: &no}, func(string) string { return "written" })
	add("destroy", &sdk.ToolAnnotations{DestructiveHint: &yes}, func(string) string { return "destroyed" })
	add("silent-about-itself", nil, func(string) string { return "done" })
	add("where", &sdk.ToolAnnotations{ReadOnlyHint: true}, func(string) string {
		dir, _ := os.Getwd()
		return dir
	})
	sdk.AddTool(s, &sdk.Tool{Name: "roots", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}}, func(ctx context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		if r.Session.InitializeParams().Capabilities.RootsV2 == nil {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "none declared"}}}, nil, nil
		}
		list, ok := r.Params.InputResponses["roots"].(*sdk.ListRootsResult)
		if !ok && r.Session.InitializeParams().ProtocolVersion >= "2026-07-28" {
			// The newest protocol revision requests roots in the result of a call.
			return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"roots": &sdk.ListRootsParams{}}}, nil, nil
		}
		if !ok {
			var err error
			if list, err = r.Session.ListRoots(ctx, nil); err != nil {
				return nil, nil, err
			}
		}
		var uris []string
		for _, root := range list.Roots {
			uris = append(uris, root.URI)
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: strings.Join(uris, " ")}}}, nil, nil
	})
	add("environment", &sdk.ToolAnnotations{ReadOnlyHint: true}, func(text string) string { return strconv.Itoa(len(os.Getenv(text))) })
	return s
}

const secret = "s3cr3t-value-23"

// child returns the test binary as a stdio server, in the form that clients send.
func child(t testing.TB, name, mode string) obj {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return obj{"name": name, "command": exe, "args": []string{}, "env": []obj{{"name": "DAYBOOK_TEST_TOOLS", "value": mode}, {"name": "API_KEY", "value": secret}}}
}

// remote returns a server over HTTP or SSE that counts the requests with and without
// the header.
func remote(t testing.TB, kind, name string) (server obj, with, without *atomic.Int64) {
	t.Helper()
	with, without = new(atomic.Int64), new(atomic.Int64)
	tools := newTools(name)
	get := func(*http.Request) *sdk.Server { return tools }
	var h http.Handler = sdk.NewStreamableHTTPHandler(get, nil)
	if kind == "sse" {
		h = sdk.NewSSEHandler(get, nil)
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer "+secret {
			with.Add(1)
		} else {
			without.Add(1)
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	return obj{"type": kind, "name": name, "url": web.URL, "headers": []obj{{"name": "Authorization", "value": "Bearer " + secret}}}, with, without
}

func TestACP28_StdioServers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	book := start(t, t.TempDir())
	p := connect(t, book).initialize()
	id := p.newSession(obj{"cwd": dir, "mcpServers": []obj{child(t, "local", "local")}})
	if got := p.promptTexts(id, `await mcp.local.echo({text: "hello"})`); !slices.Equal(got, []string{"local says hello"}) {
		t.Errorf("a tool returns %q", got)
	}
	if got := p.promptTexts(id, `await mcp.local.where({})`); !slices.Equal(got, []string{real}) {
		t.Errorf("the server runs in %q, want %q", got, real)
	}
	if got := p.promptTexts(id, `await mcp.local.environment({text: "API_KEY"})`); !slices.Equal(got, []string{"15"}) {
		t.Errorf("the server's secret has the length %q", got)
	}
	// The secret is neither in the ledger nor in an answer.
	err = book.Follow(waitContext(t), 0, func(batch []events.Event, last uint64) error {
		for _, e := range batch {
			b, err := json.Marshal(e.Data)
			if err != nil {
				return err
			}
			if strings.Contains(string(b), secret) {
				t.Errorf("%s has the secret: %s", e.Type, b)
			}
			if e.Seq == last {
				return context.Canceled
			}
		}
		return nil
	})
	if err != context.Canceled {
		t.Fatal(err)
	}
	for _, m := range p.messagesSince(0) {
		if strings.Contains(string(m.line), secret) {
			t.Errorf("a message contains the secret: %s", m.line)
		}
	}
}

func TestACP29_HTTPServers(t *testing.T) { t.Parallel(); testRemote(t, "http") }

func TestACP30_SSEServers(t *testing.T) { t.Parallel(); testRemote(t, "sse") }

func testRemote(t *testing.T, kind string) {
	server, with, without := remote(t, kind, "far")
	p := shared(t)
	id := p.newSession(obj{"mcpServers": []obj{server}})
	if got := p.promptTexts(id, `await mcp.far.echo({text: "hello"})`); !slices.Equal(got, []string{"far says hello"}) {
		t.Errorf("a tool returns %q", got)
	}
	if with.Load() == 0 || without.Load() != 0 {
		t.Errorf("%d requests have the header, and %d do not", with.Load(), without.Load())
	}
	p.mustCall("session/close", obj{"sessionId": id}, nil)
}

func TestACP31_AFailingServerFailsNothing(t *testing.T) {
	t.Parallel()
	p := shared(t)
	gone, _, _ := remote(t, "http", "gone")
	gone["url"] = "http://127.0.0.1:1/mcp"
	id := p.newSession(obj{"mcpServers": []obj{
		child(t, "dies", "dies"), {"name": "missing", "command": "/does/not/exist", "args": []string{}, "env": []obj{}},
		gone, {"type": "http", "name": "bad", "url": "no url", "headers": []obj{}}, child(t, "works", "works"),
	}})
	p.await("the announcement", func(m message) bool { return strings.Contains(string(m.line), "available_commands_update") })
	if got := p.promptTexts(id, `await mcp.works.echo({text: "still"})`); !slices.Equal(got, []string{"works says still"}) {
		t.Errorf("the server that works returns %q", got)
	}
	list := strings.Join(p.promptTexts(id, "/tools"), "")
	for _, want := range []string{"**dies**", "**missing**", "**gone**", "**bad**", "**works**", "`mcp.works.echo(args)`", `mcp.works["silent-about-itself"](args)`} {
		if !strings.Contains(list, want) {
			t.Errorf("/tools does not list %s:\n%s", want, list)
		}
	}
	if got := p.promptTexts(id, `try { await mcp.dies.echo({}) } catch (e) { "refused" }`); !slices.Equal(got, []string{"refused"}) {
		t.Errorf("the server that died returns %q", got)
	}
}

func TestACP32_NamesStayReachable(t *testing.T) {
	t.Parallel()
	p := shared(t)
	p.allow("reject")
	id := p.newSession(obj{"mcpServers": []obj{child(t, "My Server!", "a"), child(t, "My Server?", "b")}})
	for code, want := range map[string]string{
		`await mcp.My_Server_.echo({text: "1"})`:                              "a says 1",
		`await mcp["My_Server__2"].echo({text: "2"})`:                         "b says 2",
		`await mcp.My_Server_["silent-about-itself"]({}).catch(e => "asked")`: "asked",
		`Object.keys(mcp).sort().join()`:                                      "My_Server_,My_Server__2",
	} {
		if got := p.promptTexts(id, code); !slices.Equal(got, []string{want}) {
			t.Errorf("%s is %q, want %q", code, got, want)
		}
	}
}

func TestACP33_ServersAreOfOneSession(t *testing.T) {
	t.Parallel()
	p := shared(t)
	a := p.newSession(obj{"mcpServers": []obj{child(t, "only", "a")}})
	b := p.newSession()
	if got := p.promptTexts(b, `typeof mcp === "undefined" ? "none" : Object.keys(mcp).join()`); !slices.Equal(got, []string{"none"}) && got != nil {
		t.Errorf("the other session has %q", got)
	}
	if got := p.promptTexts(a, `await mcp.only.echo({text: "mine"})`); !slices.Equal(got, []string{"a says mine"}) {
		t.Errorf("its own session receives %q", got)
	}
}

// allow answers permission requests of the agent and counts them.
func (p *peer) allow(option string) *atomic.Int64 {
	var asked atomic.Int64
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = func(message) any {
		asked.Add(1)
		if option == "" {
			return obj{"outcome": obj{"outcome": "cancelled"}}
		}
		return obj{"outcome": obj{"outcome": "selected", "optionId": option}}
	}
	return &asked
}

func TestPermissions(t *testing.T) {
	t.Parallel()
	const call = `await mcp.tools.destroy({}).catch(e => "refused: " + e.message)`
	for _, tt := range []struct {
		name, mode, option, code string
		asked                    int64
		want                     string
	}{
		{"allowed", "ask", "allow", call, 2, "destroyed"},
		{"always allowed", "ask", "allow_always", call, 1, "destroyed"},
		{"rejected", "ask", "reject", call, 2, "refused: tools.destroy: not called: its user did not allow it"},
		{"always rejected", "ask", "reject_always", call, 1, "refused: tools.destroy: not called: its user did not allow it"},
		{"an unknown choice", "ask", "whatever", call, 2, "refused: tools.destroy: not called: its user did not allow it"},
		{"says nothing of itself", "ask", "allow", `await mcp.tools["silent-about-itself"]({})`, 2, "done"},
		{"destroys nothing", "ask", "reject", `await mcp.tools.write({})`, 0, "written"},
		{"only reads", "ask", "reject", `await mcp.tools.echo({text: "x"})`, 0, "tools says x"},
		{"auto", "auto", "reject", call, 0, "destroyed"},
		{"read only", "readonly", "allow", call, 0, "refused: tools.destroy: not called: the session is read-only, and the tool does not say that it changes nothing"},
		{"read only and writes", "readonly", "allow", `await mcp.tools.write({}).catch(e => "refused")`, 0, "refused"},
		{"read only and reads", "readonly", "allow", `await mcp.tools.echo({text: "x"})`, 0, "tools says x"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := shared(t)
			asked := p.allow(tt.option)
			id := p.newSession(obj{"mcpServers": []obj{child(t, "tools", "tools")}})
			if tt.mode != "ask" {
				p.mustCall("session/set_mode", obj{"sessionId": id, "modeId": tt.mode}, nil)
			}
			for range 2 {
				if got := p.promptTexts(id, tt.code); !slices.Equal(got, []string{tt.want}) {
					t.Errorf("the call returns %q, want %q", got, tt.want)
				}
			}
			if asked.Load() != tt.asked {
				t.Errorf("the user was asked %d times, want %d", asked.Load(), tt.asked)
			}
		})
	}
}

// TestACP36_QuestionsTakenBack: an answer "cancelled" to a permission request cancels
// the prompt.
func TestACP36_CancelledQuestions(t *testing.T) {
	t.Parallel()
	p := shared(t)
	p.allow("")
	id := p.newSession(obj{"mcpServers": []obj{child(t, "tools", "tools")}})
	if got := p.prompt(id, `await mcp.tools.destroy({}); await new Promise(r => setTimeout(r, 20000))`); got != "cancelled" {
		t.Errorf("the prompt ends with %q", got)
	}
	// Cancelling a prompt cancels its open permission request.
	p.mu.Lock()
	p.answer = nil
	p.mu.Unlock()
	ask := p.ask("session/prompt", obj{"sessionId": id, "prompt": text(`await mcp.tools.destroy({})`)})
	mark := 0
	p.await("the second question", func(m message) bool {
		if m.Method == "session/request_permission" {
			mark++
		}
		return mark == 2
	})
	p.send(obj{"jsonrpc": "2.0", "method": "session/cancel", "params": obj{"sessionId": id}})
	if m := p.awaitAnswer(ask); m.Error != nil || !strings.Contains(string(m.Result), `"cancelled"`) {
		t.Errorf("the prompt is answered by %s", m.line)
	}
	if got := p.promptTexts(id, "1 + 1"); !slices.Equal(got, []string{"2"}) {
		t.Errorf("the next prompt returns %q", got)
	}
}
