package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"daybook/internal/web/access"
	"daybook/ledger"
	"daybook/mcp"
)

// perSecond limits each tenant to a rate, with a clock that stands still.
func perSecond(rate float64) *access.Quotas {
	at := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	return access.NewQuotas(access.Limits{RequestsPerSecond: rate}, nil, func() time.Time { return at })
}

// counting returns a stack that counts the accepted runs.
func counting(runs *atomic.Int64) *fakeStack {
	return &fakeStack{submit: func(context.Context, ledger.Submission) (ledger.Receipt, error) {
		return ledger.Receipt{ExecutionID: fmt.Sprint("run ", runs.Add(1)), Seq: 1}, nil
	}}
}

// session opens a transport session of a revision and returns its headers.
func session(t *testing.T, url, revision string) []string {
	t.Helper()
	status, h, body := post(t, url, strings.Replace(initializeLine, "2024-11-05", revision, 1))
	if status != http.StatusOK {
		t.Fatalf("initialize: %d %s", status, body)
	}
	headers := []string{"Mcp-Session-Id", h.Get("Mcp-Session-Id")}
	if status, _, body := post(t, url, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, headers...); status != http.StatusAccepted {
		t.Fatalf("initialized: %d %s", status, body)
	}
	return headers
}

func callLine(id int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"run_js","arguments":{"code":"1"}}}`, id)
}

func batchOf(n int, line func(int) string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = line(i)
	}
	return "[" + strings.Join(list, ",") + "]"
}

// Each message of a batch counts as a request. Messages over the rate are answered with
// an error each and have no effect.
func TestBatchCountsEachMessage(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	url := serveHTTP(t, counting(&runs).serve(t, mcp.Options{Quotas: perSecond(1)})) + "/mcp"
	headers := session(t, url, "2025-03-26")
	status, h, body := post(t, url, batchOf(100, callLine), headers...)
	// The HTTP server, which this test does not have, counts the first message.
	if runs.Load() != 11 || status != http.StatusOK || h.Get("Retry-After") != "1" {
		t.Errorf("%d runs were accepted, want 11; %d, Retry-After %q: %s", runs.Load(), status, h.Get("Retry-After"), body)
	}
	answers := map[int]bool{}
	for line := range strings.Lines(body) {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var m struct {
			ID     int
			Result json.RawMessage
			Error  *struct {
				Code    int
				Message string
				Data    struct {
					Limit string `json:"limit"`
					Retry int    `json:"retry_after_secs"`
				}
			}
		}
		if err := json.Unmarshal([]byte(data), &m); err != nil || answers[m.ID] {
			t.Errorf("%s: %v", data, err)
		}
		answers[m.ID] = true
		if e := m.Error; (e == nil) != (m.ID < 11) || e != nil && (e.Code != -32000 || e.Data.Limit != "limit-requests" || e.Data.Retry != 1 || !strings.Contains(e.Message, "try again in 1 s")) {
			t.Errorf("message %d: %s", m.ID, data)
		}
	}
	if len(answers) != 100 {
		t.Errorf("%d messages were answered, want 100", len(answers))
	}
	// Notifications have no answer: a batch with more of them than the rate permits is
	// refused.
	status, h, body = post(t, url, batchOf(5, func(int) string {
		return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`
	}), headers...)
	if status != http.StatusTooManyRequests || h.Get("Retry-After") != "1" || !strings.Contains(body, "limit-requests") {
		t.Errorf("five notifications over the rate: %d %s", status, body)
	}
}

// Batches have limits and a form, and belong to one revision.
func TestBatchRules(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	url := serveHTTP(t, counting(&runs).serve(t, mcp.Options{}))
	with := session(t, url+"/mcp", "2025-03-26")
	late := session(t, url+"/mcp", "2025-11-25")
	const modern = "2026-07-28"
	ping := func(id int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, id) }
	for name, c := range map[string]struct {
		path, body string
		header     []string
		status     int
		want       string
	}{
		"fine":                     {"/mcp", batchOf(100, ping), with, 200, `"result"`},
		"its own revision named":   {"/mcp", batchOf(2, ping), append([]string{"Mcp-Protocol-Version", "2025-03-26"}, with...), 200, `"result"`},
		"one too many":             {"/mcp", batchOf(101, ping), with, 413, "up to 100 messages"},
		"very many":                {"/mcp", batchOf(10_000, ping), with, 413, "more than 20000 values"},
		"too large":                {"/mcp", `["` + strings.Repeat("x", 5<<20) + `"]`, with, 413, "4 MiB"},
		"too large behind blanks":  {"/mcp", strings.Repeat(" ", 5<<20) + batchOf(2, ping), with, 413, "4 MiB"},
		"empty":                    {"/mcp", `[]`, with, 400, "empty"},
		"no objects":               {"/mcp", `[1]`, with, 400, "not a JSON-RPC batch"},
		"two of one id":            {"/mcp", `[` + ping(1) + `,` + ping(1) + `]`, with, 400, "give each its own"},
		"with initialize":          {"/mcp", `[` + ping(1) + `,` + initializeLine + `]`, with, 400, "send it alone"},
		"without a session":        {"/mcp", batchOf(2, ping), nil, 400, "send initialize alone first"},
		"in a later revision":      {"/mcp", batchOf(2, ping), late, 400, "only revision 2025-03-26"},
		"named as the earlier one": {"/mcp", batchOf(2, ping), append([]string{"Mcp-Protocol-Version", "2025-03-26"}, late...), 400, "only revision 2025-03-26"},
		"in the stateless one":     {"/mcp", batchOf(2, ping), []string{"Mcp-Protocol-Version", modern}, 400, "revision 2026-07-28 has no JSON-RPC batches"},
		"of the legacy transport":  {"/sse?sessionid=NONE", batchOf(2, ping), nil, 404, "session not found"},
		"an unknown session":       {"/mcp", batchOf(2, ping), []string{"Mcp-Session-Id", "NONE"}, 404, ""},
	} {
		status, _, body := post(t, url+c.path, c.body, c.header...)
		if status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d %.200s, want %d and %q", name, status, body, c.status, c.want)
		}
	}
}

// Each line over a pipe counts as a request.
func TestStdioCountsEachMessage(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	p := openPipe(t, counting(&runs).serve(t, mcp.Options{Quotas: perSecond(1)}), "")
	p.initialize() // two messages
	for i := range 20 {
		p.send(callLine(100 + i))
		m := p.receive()
		if refused := strings.Contains(string(m["error"]), `"limit":"limit-requests"`); refused != (i >= 8) || string(m["id"]) != fmt.Sprint(100+i) {
			t.Errorf("call %d: %s", i, m)
		}
	}
	if n := runs.Load(); n != 8 {
		t.Errorf("%d runs were accepted, want 8", n)
	}
}

// A request to listen counts once for each address, and has a limit.
func TestListenCountsEachAddress(t *testing.T) {
	t.Parallel()
	url := serveHTTP(t, new(fakeStack).serve(t, mcp.Options{Quotas: perSecond(1)})) + "/mcp"
	listen := func(n int) string {
		line := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}},"notifications":{"resourceSubscriptions":` +
			batchOf(n, func(int) string { return `"session://x"` }) + `}}}`
		_, _, body := post(t, url, line, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen")
		return body
	}
	if body := listen(101); !strings.Contains(body, "may watch 100") {
		t.Errorf("101 addresses: %s", body)
	}
	if body := listen(50); !strings.Contains(body, "limit-requests") {
		t.Errorf("50 addresses at a rate of 10: %s", body)
	}
}

// At the limit, the least recently used session of a principal is closed in favor of the
// next one. Requests of a revision without sessions do not count, and one principal
// cannot use up the limit of all.
func TestSessionLimits(t *testing.T) {
	t.Parallel()
	auth, list := tokens(t, "acme/ada read run", "acme/bob read run")
	url := serveHTTP(t, new(fakeStack).serve(t, mcp.Options{Auth: auth})) + "/mcp"
	bearer := func(i int) []string { return []string{"Authorization", "Bearer " + list[i]} }
	open := func(i int) string {
		status, h, body := post(t, url, initializeLine, bearer(i)...)
		if status != http.StatusOK {
			t.Fatalf("open a session: %d %s", status, body)
		}
		return h.Get("Mcp-Session-Id")
	}
	ping := func(i int, session string) int {
		status, _, _ := post(t, url, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, append(bearer(i), "Mcp-Session-Id", session)...)
		return status
	}
	other := open(1)
	first, second := open(0), open(0)
	for range 254 {
		open(0)
	}
	if status := ping(0, first); status != http.StatusOK {
		t.Errorf("the first of 256 sessions: %d", status)
	}
	last := open(0)
	for session, want := range map[string]int{first: 200, second: 404, last: 200} {
		if status := ping(0, session); status != want {
			t.Errorf("after one session more: %d, want %d", status, want)
		}
	}
	if status := ping(1, other); status != http.StatusOK {
		t.Errorf("the session of another principal: %d", status)
	}
	const list2026 = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}}}}`
	if status, _, body := post(t, url, list2026, append(bearer(0), "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list")...); status != http.StatusOK {
		t.Errorf("without a session: %d %s", status, body)
	}
}
