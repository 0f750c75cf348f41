package attack_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// bearer sends a token with each request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// poisonedHeaps are pairs of scripts: past leaves a heap, and later starts from it. status,
// pristine and warnings are what is recorded for the run of later.
var poisonedHeaps = []struct {
	name, past, later string
	status            string
	pristine          bool
	warnings          []string // their beginnings
}{
	{"nothing", "var a = 1", "a", "completed", true, nil},
	{"result", "Object.prototype.toJSON = () => 'spoofed'; JSON.stringify = () => 'spoofed'", "({ a: 1 })", "completed", false,
		[]string{"this heap changed Object.prototype.toJSON (added), JSON.stringify:"}},
	{"error", "Error.prepareStackTrace = () => 'spoofed'", "throw new Error('honest')", "failed", false, []string{"this heap changed Error.prepareStackTrace (added):"}},
	{"lines", "let console = { log() { globalThis.console.log('spoofed') } }", "console.log('honest')", "completed", false,
		[]string{"this heap changed console (hidden by a declaration):"}},
	{"lines by an interval", "setInterval(() => console.log('spoofed'), 1).unref()", "await new Promise(r => setTimeout(r, 20))", "completed", true,
		[]string{"this heap carries 1 timer of earlier runs (1 interval; 1 unref'd)"}},
	{"a getter as the name of a method", "Object.defineProperty(console.log, 'name', { get() { JSON.stringify = () => 'spoofed'; return 'log' } }); 0",
		"console.log.bind(console)('honest'); JSON.stringify({ a: 1 })", "completed", false, []string{"this heap changed console.log:"}},
	{"lines by a finalizer", "var kept = {}, registry = new FinalizationRegistry(() => console.log('spoofed')); registry.register(kept, 1)", "kept = null", "completed", true,
		[]string{"this heap registered objects with a FinalizationRegistry"}},
	{"a getter of a global", "Object.defineProperty(globalThis, 'total', { get() { return 666 }, configurable: true })", "var total = 1; total", "completed", true,
		[]string{"this heap has accessors or read-only properties of earlier runs on globalThis: total (accessor);"}},
	{"all of it", "Array.prototype.map = Promise.prototype.then = 1; setInterval(() => {}, 1).unref(); setTimeout(() => {}, 1).unref()", "1 + 1", "completed", false,
		[]string{"this heap changed Array.prototype.map, Promise.prototype.then:", "this heap carries 2 timers of earlier runs (1 timeout, 1 interval; 2 unref'd)"}},
	{"a run out of time", "console.log = () => {}; setInterval(() => {}, 1).unref()", "for (;;);", "timed_out", false,
		[]string{"this heap changed console.log:", "this heap carries 1 timer"}},
	{"a cancelled run", "console.log = () => {}", "console.warn('here'); for (;;);", "cancelled", false, []string{"this heap changed console.log:"}},
}

// A heap whose earlier runs replaced built-in objects and left timers can spoof the output
// of a later run of honest code. The recorded run has a warning, over REST and MCP, also if
// it throws, times out or is cancelled.
func TestPoisonedHeap(t *testing.T) {
	attack(t, "TestPoisonedHeaps in internal/exec/v8 and TestCarriedReport in internal/exec/worker")
	runInParallel(t)
	s := startServer(t)
	token := s.token("victim", "read,run")
	client := sdk.NewClient(&sdk.Implementation{Name: "attack", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: s.url() + "/mcp", HTTPClient: &http.Client{Transport: bearer(token)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	overMCP := func(id string) map[string]any {
		t.Helper()
		res, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "get_execution", Arguments: map[string]any{"execution_id": id}})
		if err != nil || res.IsError {
			t.Fatalf("get_execution %s: %v, %v", id, err, res)
		}
		raw, err := json.Marshal(res.StructuredContent)
		if err != nil {
			t.Fatal(err)
		}
		var answer map[string]any
		if err := json.Unmarshal(raw, &answer); err != nil {
			t.Fatal(err)
		}
		return answer
	}

	for _, test := range poisonedHeaps {
		past := s.run(token, test.past, nil)
		if past["status"] != "completed" || past["pristine"] != nil {
			t.Fatalf("%s: the past: %v", test.name, past)
		}
		limits := map[string]any{"heap": past["heap"], "execution_timeout_secs": 10}
		if test.status == "timed_out" {
			limits["execution_timeout_secs"] = 1
		}
		id := s.submit(token, test.later, limits)
		if test.status == "cancelled" {
			for s.call(token, http.MethodGet, "/api/executions/"+id, nil, http.StatusOK)["total_lines"] == 0.0 {
				// Poll another process until the run has started.
			}
			s.call(token, http.MethodPost, "/api/executions/"+id+"/cancel", map[string]any{}, http.StatusOK)
		}
		rest := s.wait(token, id)
		for over, e := range map[string]map[string]any{"REST": rest, "MCP": overMCP(id)} {
			warnings, _ := e["warnings"].([]any)
			if e["status"] != test.status || e["pristine"] != test.pristine || len(warnings) != len(test.warnings) {
				t.Errorf("%s over %s: status %v, pristine %v, warnings %q", test.name, over, e["status"], e["pristine"], warnings)
				continue
			}
			for i, want := range test.warnings {
				if !strings.HasPrefix(warnings[i].(string), want) {
					t.Errorf("%s over %s: warning %q, want %q", test.name, over, warnings[i], want)
				}
			}
		}
		shown := s.command("exec", "get", id, "--server", s.url(), "--token", token)
		if test.pristine == strings.Contains(shown, "this heap changed") {
			t.Errorf("%s: exec get prints %s", test.name, shown)
		}
	}
}
