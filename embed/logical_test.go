package embed_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"daybook/embed"
	"daybook/events"
	"daybook/internal/tools/catalog"
	"daybook/internal/web/client"
)

// call sends JSON to a Daybook and decodes the answer.
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

// declared matches the globals in a declaration.
var declared = regexp.MustCompile(`(?m)^declare (?:const|function|class) (\w+)`)

// TestP17_DeclaredIsCallable: every declared API of the table exists, and the table declares
// every built-in API of isolates that is not part of the language.
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
		t.Errorf("declared globals that do not exist: %s", missing)
	}
	members, _ := completes(t, book, embed.Script{Code: `[
		"log debug info warn error trace table dir group groupEnd assert count countReset time timeLog timeEnd".split(" ").filter(n => typeof console[n] !== "function"),
		["getRandomValues", "randomUUID"].filter(n => typeof crypto[n] !== "function"),
		["now"].filter(n => typeof performance[n] !== "function")].flat().join()`})
	if members != "" {
		t.Errorf("declared members that do not exist: %s", members)
	}
	// Globals that are not part of the language.
	extra, _ := completes(t, book, embed.Script{Code: `const told = new Set(` + string(list) + `);
		"console performance crypto setTimeout setInterval setImmediate clearTimeout clearInterval clearImmediate queueMicrotask TextEncoder TextDecoder atob btoa structuredClone fetch URL URLSearchParams AbortController Blob WebSocket require process"
			.split(" ").filter(n => typeof globalThis[n] !== "undefined" && !told.has(n)).join()`})
	if extra != "" {
		t.Errorf("globals that are not declared: %s", extra)
	}
	// A call of a tool that is not listed has a clear error.
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
	c := client.New(base, client.Options{})
	answer, err := c.OpenSession(within(t), client.Opening{Intent: "over REST", Seeds: []string{"builtin.console", "builtin.timers"}})
	opened := answer.Body
	if err != nil || !opened.New || len(opened.Added) != 2 {
		t.Fatalf("%s, %v", answer.JSON, err)
	}
	submit := func(code string) (result string) {
		t.Helper()
		accepted, err := c.Submit(within(t), client.Run{Code: code, LogicalSession: opened.SessionID})
		if err != nil {
			t.Fatal(err)
		}
		ended, err := c.Wait(within(t), accepted.Body.ExecutionID)
		d := ended.Body
		if err != nil || d.Status != events.StatusCompleted || d.Turn == nil {
			t.Fatalf("%s: %s, turn %v, %v", d.Status, deref(d.Error), d.Turn, err)
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

// TestTurnsThatWaitOverREST: a session accepts turns up to the maximum number of waiting ones.
// A waiting turn is cancelled at once, and each other turn runs when the one before it has
// ended.
func TestTurnsThatWaitOverREST(t *testing.T) {
	t.Parallel()
	book := start(t, embed.Options{HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}, Access: embed.AccessOptions{SessionTurns: 2}})
	c := client.New(book.URL(), client.Options{})
	opened, err := c.OpenSession(within(t), client.Opening{Intent: "waits", Seeds: []string{"builtin"}})
	if err != nil {
		t.Fatal(err)
	}
	request := func(code string) (string, error) {
		accepted, err := c.Submit(within(t), client.Run{Code: code, LogicalSession: opened.Body.SessionID})
		return accepted.Body.ExecutionID, err
	}
	submit := func(code string) string {
		t.Helper()
		id, err := request(code)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	status := func(id string) events.Status {
		t.Helper()
		ended, err := c.Wait(within(t), id)
		if err != nil {
			t.Fatal(err)
		}
		return ended.Body.Status
	}
	cancel := func(id string) {
		t.Helper()
		if _, err := c.Cancel(within(t), id); err != nil {
			t.Fatal(err)
		}
	}
	slow := submit("for (;;);")
	second, third := submit("2"), submit("3")
	_, err = request("4")
	if refused, ok := errors.AsType[*client.Error](err); !ok || refused.Status != http.StatusTooManyRequests || !strings.Contains(refused.Message, "2 turns that wait") {
		t.Fatalf("a turn more than may wait: %v", err)
	}
	cancel(second)
	if got := status(second); got != events.StatusCancelled {
		t.Errorf("the cancelled turn %s", got)
	}
	cancel(slow)
	if got := status(third); got != events.StatusCompleted {
		t.Errorf("the last turn %s", got)
	}
	submit("5")
}

// TestP19_HTTPWithoutASessionHasNoBinding: a run that names no session has the state of no
// session, whatever sessions were opened before.
func TestP19_HTTPWithoutASessionHasNoBinding(t *testing.T) {
	t.Parallel()
	book := start(t, embed.Options{HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}})
	c := client.New(book.URL(), client.Options{})
	opened, err := c.OpenSession(within(t), client.Opening{Intent: "bound", Seeds: []string{"builtin"}})
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := c.Submit(within(t), client.Run{Code: "globalThis.mine = 1", LogicalSession: opened.Body.SessionID})
	if err != nil {
		t.Fatal(err)
	}
	if ended, err := c.Wait(within(t), accepted.Body.ExecutionID); err != nil || ended.Body.Status != events.StatusCompleted {
		t.Fatalf("%s, %v", ended.JSON, err)
	}
	if got, _ := completes(t, book, embed.Script{Code: "typeof mine"}); got != "undefined" {
		t.Errorf("a run without a session sees %s", got)
	}
}
