package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/internal/web/access"
	"daybook/ledger"
	"daybook/mcp"
)

// tokens creates a token for each "tenant/principal scope..." and the authenticator that
// accepts them.
func tokens(t *testing.T, who ...string) (access.Authenticator, []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	var list []string
	for _, w := range who {
		words := strings.Fields(w)
		tenant, principal, _ := strings.Cut(words[0], "/")
		var scopes []access.Scope
		for _, s := range words[1:] {
			scopes = append(scopes, access.Scope(s))
		}
		set, err := access.NewScopes(scopes...)
		if err != nil {
			t.Fatal(err)
		}
		secret, _, err := access.CreateToken(path, access.Grant{Tenant: tenant, Principal: principal, Scopes: set}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, secret)
	}
	f, err := access.OpenTokens(path, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	return f, list
}

// withToken returns a client that sends a token with every request.
func withToken(token string) *http.Client {
	return &http.Client{Transport: headerTransport{"Authorization", "Bearer " + token}}
}

// client connects the SDK's client with a token.
func client(t *testing.T, url, token, revision string, opts *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	var transport sdk.Transport = &sdk.StreamableClientTransport{Endpoint: url + "/mcp", HTTPClient: withToken(token)}
	if revision == "sse" {
		transport, revision = &sdk.SSEClientTransport{Endpoint: url + "/sse", HTTPClient: withToken(token)}, "2024-11-05"
	}
	c := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, opts)
	ss, err := c.Connect(t.Context(), transport, &sdk.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ss.Close() })
	return ss
}

func call(t *testing.T, ss *sdk.ClientSession, tool string, args map[string]any) (string, bool) {
	t.Helper()
	res, err := ss.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	return res.Content[0].(*sdk.TextContent).Text, res.IsError
}

// TestTokenRequired sends requests without a token and with invalid ones.
func TestTokenRequired(t *testing.T) {
	t.Parallel()
	auth, _ := tokens(t, "acme/ada read")
	url := serveHTTP(t, new(fakeStack).serve(t, mcp.Options{Auth: auth}))
	for _, path := range []string{"/mcp", "/sse"} {
		for _, header := range [][]string{nil, {"Authorization", "Bearer wrong"}, {"Authorization", "Basic eA=="}} {
			status, h, body := post(t, url+path, initializeLine, header...)
			want := `Bearer resource_metadata="` + url + "/.well-known/oauth-protected-resource" + path + `"`
			if status != http.StatusUnauthorized || h.Get("WWW-Authenticate") != want {
				t.Errorf("%s with %v: %d %s, challenge %q, want %q", path, header, status, body, h.Get("WWW-Authenticate"), want)
			}
		}
	}
}

// TestScopes checks over each transport that a caller sees and can call the tools of its
// scopes only.
func TestScopes(t *testing.T) {
	t.Parallel()
	auth, list := tokens(t, "acme/reader read", "acme/runner run", "acme/both read run", "acme/admin admin")
	b := openStack(t, ledger.Options{})
	url := serveHTTP(t, b.serve(t, mcp.Options{Auth: auth}))
	for _, revision := range []string{"sse", "2025-11-25", "2026-07-28"} {
		for i, can := range []struct{ read, run bool }{{true, false}, {false, true}, {true, true}, {false, false}} {
			ss := client(t, url, list[i], revision, nil)
			tools, err := ss.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			shown := func(name string) bool {
				return slices.ContainsFunc(tools.Tools, func(t *sdk.Tool) bool { return t.Name == name })
			}
			for name, want := range map[string]bool{"run_js": can.run, "cancel_execution": can.run, "set_heap_tags": can.run, "delete_heap_tags": can.run, "get_execution": can.read, "list_sessions": can.read} {
				if shown(name) != want {
					t.Errorf("%s, token %d: %s is shown: %v, want %v", revision, i, name, !want, want)
				}
			}
			if text, refused := call(t, ss, "run_js", map[string]any{"code": `"1"`}); refused == can.run || refused && !strings.Contains(text, `needs the scope "run"`) {
				t.Errorf("%s, token %d: run_js: %s", revision, i, text)
			}
			if text, refused := call(t, ss, "list_sessions", nil); refused == can.read || refused && !strings.Contains(text, `needs the scope "read"`) {
				t.Errorf("%s, token %d: list_sessions: %s", revision, i, text)
			}
			_, err = ss.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "session://none"})
			if refused := err != nil && strings.Contains(err.Error(), `needs the scope \"read\"`) || err != nil && strings.Contains(err.Error(), `needs the scope "read"`); refused == can.read {
				t.Errorf("%s, token %d: resources/read: %v", revision, i, err)
			}
		}
	}
}

// TestTenants checks that two tenants at one address do not see each other's data.
func TestTenants(t *testing.T) {
	t.Parallel()
	auth, list := tokens(t, "acme/ada read run", "other/bob read run")
	b := openStack(t, ledger.Options{})
	url := serveHTTP(t, b.serve(t, mcp.Options{Auth: auth}))
	for _, revision := range []string{"sse", "2025-06-18", "2026-07-28"} {
		ada, bob := client(t, url, list[0], revision, nil), client(t, url, list[1], revision, nil)
		text, refused := call(t, ada, "run_js", map[string]any{"code": `"secret"`})
		var run struct {
			ID string `json:"execution_id"`
		}
		if err := json.Unmarshal([]byte(text), &run); err != nil || refused {
			t.Fatalf("%s: %v", text, err)
		}
		if text, _ := call(t, bob, "list_executions", nil); strings.Contains(text, run.ID) {
			t.Errorf("%s: the other tenant is shown %s", revision, text)
		}
		if text, refused := call(t, bob, "get_execution", map[string]any{"execution_id": run.ID}); !refused || strings.Contains(text, "secret") {
			t.Errorf("%s: the other tenant gets %s", revision, text)
		}
		if text, _ := call(t, ada, "get_execution", map[string]any{"execution_id": run.ID}); !strings.Contains(text, run.ID) {
			t.Errorf("%s: its own tenant gets %s", revision, text)
		}
		events, err := b.ledger.History(t.Context(), "acme", run.ID)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(events[0].Data)
		if err != nil || !strings.Contains(string(raw), `"actor":{"principal":"ada","transport":"mcp-http","client":"test/1","address":"127.0.0.1"}`) {
			t.Errorf("%s: the recorded actor: %s, %v", revision, raw, err)
		}
	}
}

// TestSessionsBelongToTheirCaller sends requests to a session that another caller opened.
func TestSessionsBelongToTheirCaller(t *testing.T) {
	t.Parallel()
	auth, list := tokens(t, "acme/ada read run", "acme/bob read run", "other/ada read run", "acme/ada read run", "acme/ada read")
	url := serveHTTP(t, openStack(t, ledger.Options{}).serve(t, mcp.Options{Auth: auth}))
	bearer := func(i int) []string { return []string{"Authorization", "Bearer " + list[i]} }
	const ping = `{"jsonrpc":"2.0","id":7,"method":"ping"}`

	status, h, body := post(t, url+"/mcp", initializeLine, bearer(0)...)
	session := h.Get("Mcp-Session-Id")
	if status != http.StatusOK || session == "" {
		t.Fatalf("%d %s", status, body)
	}
	for i, want := range []int{http.StatusOK, http.StatusNotFound, http.StatusNotFound, http.StatusOK} {
		status, _, body := post(t, url+"/mcp", ping, append(bearer(i), "Mcp-Session-Id", session)...)
		if status != want {
			t.Errorf("token %d in the session of token 0: %d %s, want %d", i, status, body, want)
		}
		if status == http.StatusOK {
			continue
		}
		if never, _, same := post(t, url+"/mcp", ping, append(bearer(i), "Mcp-Session-Id", strings.Repeat("A", len(session)))...); never != status || same != body {
			t.Errorf("token %d: an unknown session is answered with %d %q, that of token 0 with %d %q", i, never, same, status, body)
		}
	}
	// The scopes are those of the request's token, not of the token that opened the session.
	_, _, body = post(t, url+"/mcp", `{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"run_js","arguments":{"code":"1"}}}`, append(bearer(4), "Mcp-Session-Id", session)...)
	if !strings.Contains(body, `needs the scope`) {
		t.Errorf("a token that may only read ran code: %s", body)
	}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/sse", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := withToken(list[0]).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	in := bufio.NewScanner(res.Body)
	endpoint := ""
	for endpoint == "" && in.Scan() {
		endpoint, _ = strings.CutPrefix(in.Text(), "data: ")
		if !strings.HasPrefix(endpoint, "/sse?") {
			endpoint = ""
		}
	}
	unknown := endpoint[:strings.Index(endpoint, "=")+1] + "NEVERWAS"
	_, _, never := post(t, url+unknown, ping, bearer(1)...)
	for i, want := range []int{http.StatusAccepted, http.StatusNotFound, http.StatusNotFound, http.StatusAccepted, http.StatusNotFound} {
		status, _, body := post(t, url+endpoint, ping, bearer(i)...)
		if status != want || want == http.StatusNotFound && body != never {
			t.Errorf("token %d in the connection of token 0: %d %s, want %d", i, status, body, want)
		}
	}
}

// TestNotificationsStayInTheTenant watches the same address in two tenants: each is
// notified of its own changes only.
func TestNotificationsStayInTheTenant(t *testing.T) {
	t.Parallel()
	auth, list := tokens(t, "acme/ada read run", "other/bob read run")
	b := openStack(t, ledger.Options{})
	url := serveHTTP(t, b.serve(t, mcp.Options{Auth: auth}))
	const address = "session://build"
	watch := func(token string) (*sdk.ClientSession, <-chan string) {
		news := make(chan string, 100)
		ss := client(t, url, token, "2025-06-18", &sdk.ClientOptions{ResourceUpdatedHandler: func(_ context.Context, r *sdk.ResourceUpdatedNotificationRequest) { news <- r.Params.URI }})
		if err := ss.Subscribe(t.Context(), &sdk.SubscribeParams{URI: address}); err != nil {
			t.Fatal(err)
		}
		return ss, news
	}
	_, adas := watch(list[0])
	_, bobs := watch(list[1])
	submit := func(tenant string) {
		t.Helper()
		if _, err := b.ledger.Submit(t.Context(), ledger.Submission{Tenant: tenant, Code: `"x"`, Session: "build"}); err != nil {
			t.Fatal(err)
		}
	}
	expectNotified := func(who string, news <-chan string) {
		t.Helper()
		select {
		case uri := <-news:
			if uri != address {
				t.Errorf("%s is notified of %s", who, uri)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s is not notified", who)
		}
	}
	submit("acme")
	expectNotified("ada", adas)
	submit("other")
	expectNotified("bob", bobs)
	select {
	case <-bobs:
		t.Error("bob is notified twice of one run of his tenant")
	default:
	}
	// The notification for the second run of acme follows all that bob's run could have
	// caused for ada.
	submit("acme")
	expectNotified("ada", adas)
	select {
	case <-adas:
		t.Error("ada is notified three times of two runs of her tenant")
	default:
	}
}
