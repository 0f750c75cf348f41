package embed_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sys/unix"

	"daybook/embed"
	"daybook/internal/web/access"
)

// recordedBelow maps each route that changes something to the reason why it is served below the
// disk reserve, or to an empty text if it is refused. A route that is not in the map fails the
// test.
var recordedBelow = map[string]string{
	"POST /api/exec":                           "",
	"POST /api/executions/{id}/replay":         "",
	"POST /api/heaps/{heap}/migrate":           "",
	"POST /api/executions/{id}/what-if":        "records nothing",
	"PUT /api/heaps/{heap}/tags":               "",
	"DELETE /api/heaps/{heap}/tags":            "",
	"POST /api/logical-sessions":               "",
	"POST /api/sessions/{name}/reset":          "",
	"PATCH /api/context":                       "",
	"DELETE /api/context":                      "",
	"POST /api/webhooks":                       "",
	"POST /api/modules":                        "",
	"DELETE /api/modules":                      "one event for each admitted package",
	"POST /api/webhooks/{id}/retry":            "",
	"DELETE /api/webhooks/{id}":                "one event for each webhook, after which nothing is recorded of its deliveries",
	"POST /api/executions/{id}/cancel":         "one event for each execution, which its end would record too",
	"POST /api/heaps/collect":                  "gives space back",
	"DELETE /api/content":                      "gives space back",
	"DELETE /api/sessions/{name}/content":      "gives space back",
	"POST /api/ledger/volumes/{volume}/remove": "gives space back",
	"POST /api/ledger/volumes/seal":            "of an operator: a volume must be sealed to be removed",
	"POST /api/ledger/signers":                 "of an operator: a stolen key must be retired",
	"POST /api/ledger/key/rotate":              "of an operator: a key must be replaced",
	"POST /api/ledger/checkpoint":              "of an operator, at most four a second for all callers: recorded events can be proven",
	"POST /api/sessions/{name}/replay":         "records nothing",
}

// Below the disk reserve each route of the OpenAPI document that records something for a client
// is refused with the same problem, and each route that reads is answered. The same holds for
// MCP tools.
func TestRoutesBelowTheReserve(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g := startGuarded(t, embed.Options{DataDir: dir, Resources: embed.ResourceOptions{DiskReserve: -1}})
	token := g.token("acme", "ada", access.AllScopes)
	g.await(token)
	own := g.owns(token, "acmeword")
	if err := g.book.Close(); err != nil {
		t.Fatal(err)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	opts := embed.Options{DataDir: dir, Resources: embed.ResourceOptions{DiskReserve: 2 * int64(st.Bfree) * st.Bsize}, Access: embed.AccessOptions{TokenFile: g.file}, HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}}
	g.book = start(t, opts)

	var doc struct {
		Paths map[string]map[string]operation
	}
	g.decode(token, http.MethodGet, "/openapi.json", "", &doc)
	known := len(recordedBelow)
	for path, item := range doc.Paths {
		for method, op := range item {
			method = strings.ToUpper(method)
			route := method + " " + path
			if method == http.MethodGet {
				if !strings.HasPrefix(path, "/api/") {
					continue // readiness reports that nothing is recorded
				}
				status, answer := g.ask(token, method, pathFor(t, path, own), "")
				if status >= 500 || strings.Contains(answer, "too little of the disk") && path != "/api/damage" {
					t.Errorf("%s is answered %d: %.300s", route, status, answer)
				}
				continue
			}
			why, classified := recordedBelow[route]
			if !classified {
				t.Errorf("%s is not classified: add to recordedBelow the reason why it is served below the disk reserve, or an empty text if it is refused", route)
				continue
			}
			known--
			if why == "" {
				g.refusedBelow(token, method, pathFor(t, path, own)+contextQuery(path, own), belowBody(t, route, op, own))
			}
		}
	}
	if known != 0 {
		t.Errorf("%d routes of the table are not in the document", known)
	}
	g.toolsBelowTheReserve(token, own)
	// Routes that are served to clients of a tenant.
	for _, r := range []struct {
		method, path string
		want         int
	}{
		{http.MethodPost, "/api/executions/" + own.execution + "/cancel", http.StatusConflict}, // it has ended
		{http.MethodDelete, "/api/webhooks/" + own.webhook, http.StatusOK},
	} {
		if status, answer := g.ask(token, r.method, r.path, ""); status != r.want {
			t.Errorf("%s %s is answered %d: %.300s", r.method, r.path, status, answer)
		}
	}
}

// toolsBelow is recordedBelow for the tools of MCP that change something.
var toolsBelow = map[string]string{
	"run_js": "", "set_heap_tags": "", "delete_heap_tags": "", "open_session": "", "set_context": "", "context_clear": "", "reset_session": "",
	"cancel_execution": "one event for each execution, which its end would record too",
}

// sessionTransport names a session in each request.
type sessionTransport struct {
	http.RoundTripper
	session string
}

func (s sessionTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-MCP-Session-Id", s.session)
	return s.RoundTripper.RoundTrip(r)
}

// toolsBelowTheReserve is TestRoutesBelowTheReserve for tools.
func (g *guarded) toolsBelowTheReserve(token string, own names) {
	g.t.Helper()
	client := &http.Client{Transport: sessionTransport{bearerTransport(token), own.session}}
	ss, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(within(g.t),
		&sdk.StreamableClientTransport{Endpoint: g.book.URL() + "/mcp", HTTPClient: client}, &sdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		g.t.Fatal(err)
	}
	defer ss.Close()
	tools, err := ss.ListTools(g.t.Context(), nil)
	if err != nil || len(tools.Tools) < len(toolsBelow) {
		g.t.Fatalf("%d tools, %v", len(tools.Tools), err)
	}
	known := len(toolsBelow)
	for _, tool := range tools.Tools {
		why, classified := toolsBelow[tool.Name]
		changes := tool.Annotations == nil || !tool.Annotations.ReadOnlyHint
		if changes != classified {
			g.t.Errorf("the tool %s changes something: %v; add to toolsBelow the reason why it is served below the disk reserve, or an empty text if it is refused", tool.Name, changes)
			continue
		}
		args := argumentsFor(g.t, tool, own)
		switch tool.Name {
		case "set_context":
			args["custom"] = map[string]any{"a": 1}
			fallthrough
		case "context_clear":
			delete(args, "logical_session_ref") // the context of the named session
		}
		res, err := ss.CallTool(g.t.Context(), &sdk.CallToolParams{Name: tool.Name, Arguments: args})
		if err != nil {
			g.t.Errorf("%s: %v", tool.Name, err)
			continue
		}
		raw, err := json.Marshal(res)
		if err != nil {
			g.t.Fatal(err)
		}
		refused := strings.Contains(string(raw), "too little of the disk is free: ")
		if refused != (classified && why == "") || refused && !lowDisk.Match(raw) {
			g.t.Errorf("the tool %s answers %.500s", tool.Name, raw)
		}
		if classified {
			known--
		}
	}
	if known != 0 {
		g.t.Errorf("%d tools of the table do not exist", known)
	}
}

// refusedBelow sends a request that must be refused for lack of space.
func (g *guarded) refusedBelow(token, method, path, body string) {
	g.t.Helper()
	status, answer := g.ask(token, method, path, body)
	var problem struct {
		Code, Error string
		Status      int
	}
	err := json.Unmarshal([]byte(answer), &problem)
	if status != http.StatusServiceUnavailable || err != nil || problem.Status != status || problem.Code != "unavailable" || !lowDisk.MatchString(problem.Error) {
		g.t.Errorf("%s %s is answered %d: %.500s, %v", method, path, status, answer, err)
	}
}

// lowDisk matches the error with the free space and the space from which the server takes
// writes again.
var lowDisk = regexp.MustCompile(`too little of the disk is free: \d+ MiB, and (the reserve is|before there was less than the reserve of) \d+ MiB \(--disk-reserve\); (free some space: with \d+ MiB free the server takes writes again automatically|the whole disk has \d+ MiB: start the server with a smaller --disk-reserve)`)

// contextQuery returns the query that selects the context of a route.
func contextQuery(path string, n names) string {
	if path == "/api/context" {
		return "?logical_session=" + n.logical
	}
	return ""
}

// belowBody returns the body of a request that is accepted above the reserve.
func belowBody(t *testing.T, route string, op operation, n names) string {
	t.Helper()
	switch route {
	case "POST /api/exec":
		return `{"code":"1"}`
	case "PUT /api/heaps/{heap}/tags":
		return `{"tags":{"a":"b"}}`
	case "POST /api/sessions/{name}/reset":
		return fmt.Sprintf(`{"heap":%q}`, n.heap)
	}
	method, path, _ := strings.Cut(route, " ")
	return bodyFor(t, method, path, op, n)
}
