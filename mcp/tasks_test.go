package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"daybook/ledger"
	"daybook/mcp"
	"daybook/projections"
)

// capableMeta is the _meta of a request in revision 2026-07-28 from a client that
// accepts tasks.
const capableMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`

// taskOnWire is a task in either form.
type taskOnWire struct {
	Task       *taskOnWire
	TaskID     string `json:"taskId"`
	ResultType string `json:"resultType"`
	Status     string
	Result     *toolResult
}

func decodeTask(t testing.TB, raw json.RawMessage) taskOnWire {
	t.Helper()
	var task taskOnWire
	if err := json.Unmarshal(raw, &task); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return task
}

// TestTaskOutlivesServer checks that another server reports and cancels a task: its
// state is in the ledger.
func TestTaskOutlivesServer(t *testing.T) {
	t.Parallel()
	book := openStack(t, ledger.Options{})
	first := book.serve(t, mcp.Options{})
	p := openPipe(t, first, "")
	task := decodeTask(t, p.call("tools/call", `{"name":"run_js","arguments":{"code":"await forever"},`+capableMeta+`}`))
	if task.ResultType != "task" || task.Status != "working" || task.TaskID == "" {
		t.Fatalf("run_js: %+v", task)
	}
	book.awaitState(t, task.TaskID, func(d projections.ExecutionDetail) bool { return !d.Queued })
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}

	p = openPipe(t, book.serve(t, mcp.Options{}), "")
	params := fmt.Sprintf(`{"taskId":%q,%s}`, task.TaskID, capableMeta)
	if got := decodeTask(t, p.call("tasks/get", params)); got.Status != "working" || got.Result != nil {
		t.Errorf("after the restart: %+v", got)
	}
	p.call("tasks/cancel", params)
	if got := decodeTask(t, p.call("tasks/get", params)); got.Status != "cancelled" {
		t.Errorf("right after tasks/cancel: %+v", got)
	}
	d := book.await(t, task.TaskID)
	if d.Status != "cancelled" || d.CancelledBy == nil || d.CancelledBy.Client != "t/1" || d.CancelledBy.Transport != "mcp-stdio" {
		t.Errorf("recorded: %s by %+v", d.Status, d.CancelledBy)
	}
	// The other revision reads the same task.
	p = openPipe(t, book.serve(t, mcp.Options{}), "")
	p.initialize()
	if got := decodeTask(t, p.call("tasks/get", fmt.Sprintf(`{"taskId":%q}`, task.TaskID))); got.Status != "cancelled" {
		t.Errorf("in revision 2025-11-25: %+v", got)
	}
}

// TestTaskResultWaits checks that tasks/result is answered after the end, and that a
// client that stops waiting does not cancel the run.
func TestTaskResultWaits(t *testing.T) {
	t.Parallel()
	book := openStack(t, ledger.Options{})
	p := openPipe(t, book.serve(t, mcp.Options{}), "")
	p.initialize()
	task := *decodeTask(t, p.call("tools/call", `{"name":"run_js","arguments":{"code":"await forever"},"task":{}}`)).Task
	wait := func(id string) {
		p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"tasks/result","params":{"taskId":%q}}`, id, task.TaskID))
	}
	wait("gives up")
	p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"gives up"}}`)
	if m := p.receive(); string(m["id"]) != `"gives up"` || m["error"] == nil {
		t.Fatalf("got %s", m)
	}
	if got := decodeTask(t, p.call("tasks/get", fmt.Sprintf(`{"taskId":%q}`, task.TaskID))); got.Status != "working" {
		t.Fatalf("after a client gave up: %+v", got)
	}
	wait("stays")
	p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"cancel","method":"tasks/cancel","params":{"taskId":%q}}`, task.TaskID))
	answers := map[string]json.RawMessage{}
	for range 2 {
		m := p.receive()
		answers[string(m["id"])] = m["result"]
	}
	if got := decodeTask(t, answers[`"cancel"`]); got.Status != "cancelled" {
		t.Errorf("tasks/cancel: %+v", got)
	}
	var r toolResult
	if err := json.Unmarshal(answers[`"stays"`], &r); err != nil || !r.IsError || !strings.Contains(r.Content[0].Text, "Cancelled by user") {
		t.Errorf("tasks/result: %s (%v)", answers[`"stays"`], err)
	}
}

// TestTaskSupportIsAnnounced checks how each revision announces tasks before a call.
func TestTaskSupportIsAnnounced(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		revision           string
		capability, member bool
	}{
		{"2025-06-18", false, false},
		{"2025-11-25", true, true},
	} {
		p := openPipe(t, new(fakeStack).serve(t, mcp.Options{}), "")
		res := p.call("initialize", `{"protocolVersion":"`+c.revision+`","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`)
		p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		if got := strings.Contains(string(res), `"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`); got != c.capability || strings.Contains(string(res), "extensions") {
			t.Errorf("%s: initialize answers %s", c.revision, res)
		}
		var list struct {
			Tools []struct {
				Name      string
				Execution *struct{ TaskSupport string }
			}
		}
		raw := p.call("tools/list", `{}`)
		if err := json.Unmarshal(raw, &list); err != nil {
			t.Fatal(err)
		}
		for _, tool := range list.Tools {
			want := c.member && tool.Name == "run_js"
			if got := tool.Execution != nil && tool.Execution.TaskSupport == "optional"; got != want {
				t.Errorf("%s: %s: execution is %+v", c.revision, tool.Name, tool.Execution)
			}
		}
		if c.capability {
			continue
		}
		p.send(`{"jsonrpc":"2.0","id":"x","method":"tasks/list","params":{}}`)
		if m := p.receive(); !strings.Contains(string(m["error"]), "-32601") {
			t.Errorf("%s: tasks/list is answered with %s", c.revision, m)
		}
	}
}

// TestTasksOverHTTP checks tasks over Streamable HTTP in both revisions, and that their
// requests are compared with their headers.
func TestTasksOverHTTP(t *testing.T) {
	t.Parallel()
	book := openStack(t, ledger.Options{})
	url := serveHTTP(t, book.serve(t, mcp.Options{})) + "/mcp"
	send := func(method, name, params string) (int, string) {
		code, _, body := post(t, url, `{"jsonrpc":"2.0","id":7,"method":"`+method+`","params":{`+params+capableMeta+`}}`,
			"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name)
		return code, body
	}
	code, body := send("tools/call", "run_js", `"name":"run_js","arguments":{"code":"1"},`)
	if code != http.StatusOK || !strings.Contains(body, `"resultType":"task"`) {
		t.Fatalf("run_js: %d %s", code, body)
	}
	page, err := book.views.Executions(t.Context(), "default", projections.ExecutionFilter{})
	if err != nil || len(page.Executions) != 1 {
		t.Fatalf("%v %v", page, err)
	}
	id := page.Executions[0].ExecutionID
	book.await(t, id)
	for _, c := range []struct {
		method, name string
		code         int
		want         string
	}{
		{"tasks/get", id, 200, `"status":"completed"`},
		{"tasks/update", id, 200, `"resultType":"complete"`},
		{"tasks/cancel", id, 200, `"resultType":"complete"`},
		{"tasks/get", "another", 400, `-32020`},
		{"tasks/get", "", 400, `-32020`},
		{"tasks/cancel", "another", 400, `-32020`},
		{"tasks/update", "another", 400, `-32020`},
		{"tasks/result", id, 404, `-32601`},
		{"tasks/list", id, 404, `-32601`},
	} {
		code, body := send(c.method, c.name, `"taskId":"`+id+`",`)
		if code != c.code || !strings.Contains(body, c.want) || !strings.Contains(body, `"id":7`) {
			t.Errorf("%s with Mcp-Name %q: %d %s, want %d and %s", c.method, c.name, code, body, c.code, c.want)
		}
	}

	_, header, _ := post(t, url, strings.Replace(initializeLine, "2024-11-05", "2025-11-25", 1))
	session := []string{"Mcp-Session-Id", header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", "2025-11-25"}
	post(t, url, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, session...)
	_, _, body = post(t, url, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run_js","arguments":{"code":"\"second\""},"task":{"ttl":1}}}`, session...)
	_, after, ok := strings.Cut(body, `"task":{"taskId":"`)
	if !ok {
		t.Fatalf("run_js: %s", body)
	}
	id, _, _ = strings.Cut(after, `"`)
	_, _, body = post(t, url, `{"jsonrpc":"2.0","id":3,"method":"tasks/result","params":{"taskId":"`+id+`"}}`, session...)
	if !strings.Contains(body, `"result":"second"`) || !strings.Contains(body, `"io.modelcontextprotocol/related-task":{"taskId":"`+id+`"}`) {
		t.Errorf("tasks/result: %s", body)
	}
}

// TestTaskListPages checks that the pages of a list have every execution once.
func TestTaskListPages(t *testing.T) {
	t.Parallel()
	book := openStack(t, ledger.Options{})
	p := openPipe(t, book.serve(t, mcp.Options{}), "")
	p.initialize()
	const runs = 53
	want := map[string]bool{}
	for range runs {
		want[(*decodeTask(t, p.call("tools/call", `{"name":"run_js","arguments":{"code":"1"},"task":{}}`)).Task).TaskID] = true
	}
	for id := range want {
		book.await(t, id)
	}
	cursor, pages := "", 0
	for {
		var list struct {
			Tasks      []taskOnWire
			NextCursor string
		}
		raw := p.call("tasks/list", fmt.Sprintf(`{"cursor":%q}`, cursor))
		if err := json.Unmarshal(raw, &list); err != nil {
			t.Fatal(err)
		}
		pages++
		for _, task := range list.Tasks {
			if !want[task.TaskID] || task.Status != "completed" {
				t.Errorf("listed %+v, unknown or a second time", task)
			}
			delete(want, task.TaskID)
		}
		if cursor = list.NextCursor; cursor == "" {
			break
		}
	}
	if len(want) != 0 || pages != 2 {
		t.Errorf("%d executions are in none of %d pages", len(want), pages)
	}
}

// TestTaskRefusals checks the messages for calls that cannot start a task.
func TestTaskRefusals(t *testing.T) {
	t.Parallel()
	book := &fakeStack{submit: func(context.Context, ledger.Submission) (ledger.Receipt, error) {
		return ledger.Receipt{}, &ledger.Error{Code: ledger.CodeUnavailable, Message: "the ledger cannot be written"}
	}}
	p := openPipe(t, book.serve(t, mcp.Options{}), "")
	var r toolResult
	if err := json.Unmarshal(p.call("tools/call", `{"name":"run_js","arguments":{"code":"1"},`+capableMeta+`}`), &r); err != nil {
		t.Fatal(err)
	}
	checkSentence(t, "the extension", r)
	p = openPipe(t, book.serve(t, mcp.Options{}), "")
	p.initialize()
	p.send(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"run_js","arguments":{"code":"1"},"task":{}}}`)
	if m := p.receive(); !strings.Contains(string(m["error"]), `"code":-32603`) || !strings.Contains(string(m["error"]), "try again") {
		t.Errorf("revision 2025-11-25: %s", m)
	}
	book.submit = func(context.Context, ledger.Submission) (ledger.Receipt, error) { panic("secret") }
	p.send(`{"jsonrpc":"2.0","id":10,"method":"tools/call","params":{"name":"run_js","arguments":{"code":"1"},"task":{}}}`)
	if m := p.receive(); !strings.Contains(string(m["error"]), `"code":-32603`) || strings.Contains(string(m["error"]), "secret") {
		t.Errorf("a panic: %s", m)
	}
}
