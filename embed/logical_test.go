package embed_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"daybook/embed"
	"daybook/internal/tools/catalog"
)

// call sends JSON to a book and decodes the answer.
func call(t *testing.T, method, url string, body, into any) (status int, raw []byte) {
	t.Helper()
	sent, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(within(t), method, url, bytes.NewReader(sent))
	if err != nil {
		t.Fatal(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if raw, err = io.ReadAll(res.Body); err != nil {
		t.Fatal(err)
	}
	if into != nil {
		if err := json.Unmarshal(raw, into); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
	}
	return res.StatusCode, raw
}

// declared finds the globals that a declaration declares.
var declared = regexp.MustCompile(`(?m)^declare (?:const|function|class) (\w+)`)

// TestP17_DeclaredIsCallable: what the table declares is there, and of what
// isolates have built in beside the language nothing is left out.
func TestP17_DeclaredIsCallable(t *testing.T) {
	t.Parallel()
	book := start(t, embed.Options{HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}})
	var names []string
	for _, e := range (catalog.Builtin{}).Entries(context.Background(), "") {
		for _, m := range declared.FindAllStringSubmatch(e.Declaration, -1) {
			names = append(names, m[1])
		}
	}
	list, err := json.Marshal(names)
	if err != nil {
		t.Fatal(err)
	}
	missing, _ := completes(t, book, embed.Script{Code: string(list) + `.filter(n => typeof globalThis[n] === "undefined").join()`})
	if missing != "" {
		t.Errorf("declared and not there: %s", missing)
	}
	members, _ := completes(t, book, embed.Script{Code: `[
		"log debug info warn error trace table dir group groupEnd assert count countReset time timeLog timeEnd".split(" ").filter(n => typeof console[n] !== "function"),
		["getRandomValues", "randomUUID"].filter(n => typeof crypto[n] !== "function"),
		["now"].filter(n => typeof performance[n] !== "function")].flat().join()`})
	if members != "" {
		t.Errorf("declared members that are not there: %s", members)
	}
	// Those of the web that are no part of the language.
	extra, _ := completes(t, book, embed.Script{Code: `const told = new Set(` + string(list) + `);
		"console performance crypto setTimeout setInterval setImmediate clearTimeout clearInterval clearImmediate queueMicrotask TextEncoder TextDecoder atob btoa structuredClone fetch URL URLSearchParams AbortController Blob WebSocket require process"
			.split(" ").filter(n => typeof globalThis[n] !== "undefined" && !told.has(n)).join()`})
	if extra != "" {
		t.Errorf("there and not declared: %s", extra)
	}
	// Calling what is not listed is a clear error.
	d := run(t, book, embed.Script{Code: `mcp.nobody.nothing()`})
	if d.Error == nil || !strings.Contains(*d.Error, "nobody") {
		t.Errorf("an unlisted tool: %v", deref(d.Error))
	}
}

// TestLogicalSessionOverREST opens a session, runs in it, and reads it back.
func TestLogicalSessionOverREST(t *testing.T) {
	t.Parallel()
	book := start(t, embed.Options{HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}})
	base := book.URL()
	var opened struct {
		SessionID string `json:"session_id"`
		New       bool
		Added     []struct{ Symbol, ID, Declaration string }
	}
	body := map[string]any{"intent": "over REST", "seeds": []string{"builtin.console", "builtin.timers"}}
	if status, raw := call(t, http.MethodPost, base+"/api/logical-sessions", body, &opened); status != http.StatusOK || !opened.New || len(opened.Added) != 2 {
		t.Fatalf("%d: %s", status, raw)
	}
	submit := func(code string) (result string) {
		t.Helper()
		var accepted struct {
			ExecutionID string `json:"execution_id"`
		}
		if status, raw := call(t, http.MethodPost, base+"/api/exec", map[string]any{"code": code, "logical_session": opened.SessionID}, &accepted); status != http.StatusAccepted {
			t.Fatalf("%d: %s", status, raw)
		}
		var d struct {
			Status string
			Result *string
			Error  *string
			Turn   *int64
		}
		call(t, http.MethodGet, base+"/api/executions/"+accepted.ExecutionID+"?wait=30", nil, &d)
		if d.Status != "completed" || d.Turn == nil {
			t.Fatalf("%s: %s, turn %v", d.Status, deref(d.Error), d.Turn)
		}
		return deref(d.Result)
	}
	submit("let n = 1")
	submit("n++")
	if got := submit("n"); got != "2" {
		t.Errorf("the state is %s", got)
	}
	var session struct {
		Turns  int64
		Head   *string
		Intent *string
	}
	if status, raw := call(t, http.MethodGet, base+"/api/logical-sessions/"+opened.SessionID, nil, &session); status != http.StatusOK || session.Turns != 3 || session.Head == nil {
		t.Errorf("%d: %s", status, raw)
	}
	if status, raw := call(t, http.MethodGet, base+"/api/logical-sessions?limit=1", nil, nil); status != http.StatusOK || !strings.Contains(string(raw), opened.SessionID) {
		t.Errorf("%d: %s", status, raw)
	}
	for name, c := range map[string]struct {
		method, path string
		body         any
		status       int
		says         string
	}{
		"no seeds":     {http.MethodPost, "/api/logical-sessions", map[string]any{"intent": "x"}, http.StatusBadRequest, "seeds"},
		"no intent":    {http.MethodPost, "/api/logical-sessions", map[string]any{"seeds": []string{"builtin"}}, http.StatusBadRequest, "intent"},
		"unknown seed": {http.MethodPost, "/api/logical-sessions", map[string]any{"intent": "x", "seeds": []string{"consolle"}}, http.StatusBadRequest, "builtin"},
		"unknown":      {http.MethodGet, "/api/logical-sessions/" + strings.Repeat("a", 64), nil, http.StatusNotFound, "not found"},
		"run nowhere":  {http.MethodPost, "/api/exec", map[string]any{"code": "1", "logical_session": strings.Repeat("a", 64)}, http.StatusNotFound, "open_session"},
	} {
		if status, raw := call(t, c.method, base+c.path, c.body, nil); status != c.status || !strings.Contains(string(raw), c.says) {
			t.Errorf("%s: %d %s", name, status, raw)
		}
	}
}

// TestTurnsThatWaitOverREST: a session takes as many turns as may wait. A turn
// that waits is cancelled at once, and the others run when the one before ends.
func TestTurnsThatWaitOverREST(t *testing.T) {
	t.Parallel()
	book := start(t, embed.Options{HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}, Access: embed.AccessOptions{SessionTurns: 2}})
	base := book.URL()
	var opened struct {
		SessionID string `json:"session_id"`
	}
	call(t, http.MethodPost, base+"/api/logical-sessions", map[string]any{"intent": "waits", "seeds": []string{"builtin"}}, &opened)
	submit := func(code string, want int) string {
		t.Helper()
		var accepted struct {
			ExecutionID string `json:"execution_id"`
			Detail      string
		}
		status, raw := call(t, http.MethodPost, base+"/api/exec", map[string]any{"code": code, "logical_session": opened.SessionID}, &accepted)
		if status != want || want == http.StatusTooManyRequests && !strings.Contains(accepted.Detail, "2 turns that wait") {
			t.Fatalf("%d: %s", status, raw)
		}
		return accepted.ExecutionID
	}
	status := func(id string) string {
		t.Helper()
		var d struct{ Status string }
		call(t, http.MethodGet, base+"/api/executions/"+id+"?wait=30", nil, &d)
		return d.Status
	}
	cancel := func(id string) {
		t.Helper()
		if status, raw := call(t, http.MethodPost, base+"/api/executions/"+id+"/cancel", nil, nil); status != http.StatusOK {
			t.Fatalf("%d: %s", status, raw)
		}
	}
	slow := submit("for (;;);", http.StatusAccepted)
	second, third := submit("2", http.StatusAccepted), submit("3", http.StatusAccepted)
	submit("4", http.StatusTooManyRequests)
	cancel(second)
	if got := status(second); got != "cancelled" {
		t.Errorf("the cancelled turn %s", got)
	}
	cancel(slow)
	if got := status(third); got != "completed" {
		t.Errorf("the last turn %s", got)
	}
	submit("5", http.StatusAccepted)
}

// TestP19_HTTPWithoutASessionHasNoBinding: a run that names no session meets the
// state of none, whatever was opened.
func TestP19_HTTPWithoutASessionHasNoBinding(t *testing.T) {
	t.Parallel()
	book := start(t, embed.Options{HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}})
	base := book.URL()
	var opened struct {
		SessionID string `json:"session_id"`
	}
	call(t, http.MethodPost, base+"/api/logical-sessions", map[string]any{"intent": "bound", "seeds": []string{"builtin"}}, &opened)
	var accepted struct {
		ExecutionID string `json:"execution_id"`
	}
	call(t, http.MethodPost, base+"/api/exec", map[string]any{"code": "globalThis.mine = 1", "logical_session": opened.SessionID}, &accepted)
	call(t, http.MethodGet, base+"/api/executions/"+accepted.ExecutionID+"?wait=30", nil, nil)
	if got, _ := completes(t, book, embed.Script{Code: "typeof mine"}); got != "undefined" {
		t.Errorf("a run without a session sees %s", got)
	}
}
