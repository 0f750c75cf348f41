package embed

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/events"
	"daybook/ledger"
)

// submitter submits code with an idempotency key over one interface, and returns the id of
// the run or the text of the error. again is true for a request that was sent before.
type submitter func(t *testing.T, d *Daybook, key, code string, again bool) (id, refusal string)

func submitREST(t *testing.T, d *Daybook, key, code string, _ bool) (id, refusal string) {
	t.Helper()
	body, err := json.Marshal(map[string]string{"code": code})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/api/exec", strings.NewReader(string(body)))
	r.Host = "localhost"
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	d.Handler().ServeHTTP(w, r)
	var a struct {
		ID    string `json:"execution_id"`
		Error string
	}
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	return a.ID, a.Error
}

func submitMCP(t *testing.T, d *Daybook, key, code string, _ bool) (id, refusal string) {
	t.Helper()
	c := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	ss, err := c.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: d.URL() + "/mcp"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ss.Close()
	res, err := ss.CallTool(t.Context(), &sdk.CallToolParams{Name: "run_js", Arguments: map[string]any{"code": code, "idempotency_key": key}})
	if err != nil {
		t.Fatal(err)
	}
	text := res.Content[0].(*sdk.TextContent).Text
	if res.IsError {
		return "", text
	}
	var a struct {
		ID string `json:"execution_id"`
	}
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return a.ID, ""
}

// submitACP submits a prompt as the agent does for a client whose owner has ended.
func submitACP(t *testing.T, d *Daybook, key, code string, again bool) (id, refusal string) {
	t.Helper()
	session, _, err := d.ledger.OpenAgentSession(t.Context(), ledger.AgentOpening{
		Tenant: events.DefaultTenant, Workspace: events.AgentWorkspace{Cwd: "/"}, Config: events.AgentConfig{Mode: events.AgentModeAsk},
	})
	if err != nil {
		t.Fatal(err)
	}
	p := ledger.AgentPrompt{Tenant: events.DefaultTenant, Session: session, Blocks: "[]", Run: &ledger.Submission{Code: code}}
	p.ID, p.Recorded = events.DerivedID(events.DefaultTenant, key), again
	done, err := d.commands().Prompt(t.Context(), p)
	if err != nil {
		return "", err.Error()
	}
	return done.ExecutionID, ""
}

// Over every interface, at a quota and while the server drains: a repeated request returns
// its run, an invalid one is refused as invalid, and each run counts once.
func TestAdmission(t *testing.T) {
	t.Parallel()
	for name, submit := range map[string]submitter{"REST": submitREST, "MCP": submitMCP, "ACP": submitACP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := Start(t.Context(), Options{DataDir: t.TempDir(), HTTP: HTTPOptions{Addr: "127.0.0.1:0"}, NATS: NATSOptions{Addr: "127.0.0.1:0", NoSync: true}, Runs: RunOptions{Elsewhere: true}, Access: AccessOptions{Limits: Limits{Runs: 2}}})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			}()
			accepted := func(what, key string, again bool) (id string) {
				t.Helper()
				id, refusal := submit(t, d, key, "1", again)
				if id == "" || refusal != "" {
					t.Fatalf("%s: %s", what, refusal)
				}
				return id
			}
			refused := func(what, key, code, want string) {
				t.Helper()
				if id, refusal := submit(t, d, key, code, false); id != "" || !strings.Contains(refusal, want) {
					t.Errorf("%s: %s %s, want %q", what, id, refusal, want)
				}
			}
			first := accepted("the first run", "a", false)
			for range 3 {
				if id := accepted("the first run again", "a", true); id != first {
					t.Errorf("the first run again is %s, not %s", id, first)
				}
			}
			accepted("a second run, after repetitions that count nothing", "b", false)
			refused("a third run", "c", "1", "limit-runs: 2")
			if n := d.quotas.Refusals()["limit-runs"]; n != 1 {
				t.Errorf("%d refusals are counted", n)
			}
			refused("an invalid run at the limit", "d", "\x00", "NUL")
			if id := accepted("the first run at the limit", "a", true); id != first {
				t.Errorf("at the limit the first run is %s, not %s", id, first)
			}

			d.draining.Store(true)
			if id := accepted("the first run while draining", "a", true); id != first {
				t.Errorf("while draining the first run is %s, not %s", id, first)
			}
			refused("an invalid run while draining", "d", "\x00", "NUL")
			refused("a third run while draining", "c", "1", "shutting down")
			d.draining.Store(false)

			seq, err := d.ledger.Cancel(t.Context(), events.DefaultTenant, first, events.Actor{})
			if err != nil {
				t.Fatal(err)
			}
			if err := d.projections.Wait(t.Context(), seq); err != nil {
				t.Fatal(err)
			}
			if id := accepted("the first run after its end", "a", true); id != first {
				t.Errorf("after its end the first run is %s, not %s", id, first)
			}
			accepted("a third run, after the end of the first", "c", false)
			refused("a fourth run", "e", "1", "limit-runs: 2")
		})
	}
}
