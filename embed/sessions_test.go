package embed_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"daybook/embed"
	"daybook/events"
)

// editor is a client of the Agent Client Protocol.
type editor struct {
	t     *testing.T
	in    io.Writer
	lines *bufio.Scanner
	next  int
}

func openEditor(t *testing.T, book *embed.Daybook) *editor {
	t.Helper()
	fromClient, toAgent := io.Pipe()
	fromAgent, toClient := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := book.ServeACP(within(t), fromClient, toClient)
		toClient.Close()
		ended <- err
	}()
	t.Cleanup(func() {
		toAgent.Close()
		go func() { _, _ = io.Copy(io.Discard, fromAgent) }()
		<-ended
	})
	e := &editor{t: t, in: toAgent, lines: bufio.NewScanner(fromAgent)}
	e.lines.Buffer(nil, 16<<20)
	e.call("initialize", map[string]any{"protocolVersion": 1})
	return e
}

// call sends a request and returns its result. It ignores other messages.
func (e *editor) call(method string, params any) (result map[string]any) {
	e.t.Helper()
	e.next++
	raw, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": e.next, "method": method, "params": params})
	if err != nil {
		e.t.Fatal(err)
	}
	go fmt.Fprintf(e.in, "%s\n", raw)
	for e.lines.Scan() {
		var m struct {
			ID     *int
			Method string
			Result map[string]any
			Error  any
		}
		if json.Unmarshal(e.lines.Bytes(), &m) == nil && m.Method == "" && m.ID != nil && *m.ID == e.next {
			if m.Error != nil {
				e.t.Fatalf("%s: %v", method, m.Error)
			}
			return m.Result
		}
	}
	e.t.Fatalf("%s: no answer: %v", method, e.lines.Err())
	return nil
}

func (e *editor) open() (session string) {
	e.t.Helper()
	return e.call("session/new", map[string]any{"cwd": "/", "mcpServers": []any{}})["sessionId"].(string)
}

func (e *editor) prompt(session, text string) {
	e.t.Helper()
	e.call("session/prompt", map[string]any{"sessionId": session, "prompt": []any{map[string]any{"type": "text", "text": text}}})
}

type listedSession struct {
	SessionID string `json:"session_id"`
	Kind      string
	Name      *string
	Refs      []string
	Runs      int64
	Head      *string
	ResetAt   *string `json:"reset_at"`
}

func (s *sessionBook) list(query string) (names []string, items []listedSession) {
	s.t.Helper()
	var answer struct {
		Sessions []string
		Items    []listedSession
	}
	if status, raw := call(s.t, http.MethodGet, s.base+"/api/sessions"+query, nil, &answer); status != http.StatusOK {
		s.t.Fatalf("list: %d: %s", status, raw)
	}
	return answer.Sessions, answer.Items
}

func (s *sessionBook) named(session, code string) ended {
	s.t.Helper()
	var accepted struct {
		ExecutionID string `json:"execution_id"`
	}
	if status, raw := call(s.t, http.MethodPost, s.base+"/api/exec", map[string]any{"code": code, "session": session}, &accepted); status != http.StatusAccepted {
		s.t.Fatalf("submit: %d: %s", status, raw)
	}
	return s.wait(accepted.ExecutionID)
}

// The requests for the list, log, replay, turns and reset take sessions of every kind, by name,
// intent, id, ref or unique prefix.
func TestSessionsOfEveryKind(t *testing.T) {
	t.Parallel()
	book := start(t, embed.Options{HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}})
	s := inSession(t, book)
	s.turn("let n = 1; console.log('one')")
	first := *s.turn("n = 2").Heap
	s.turn("throw new Error('no')")
	s.named("nightly", "console.log('night'); 7")
	s.named("nightly 2", "8")
	e := openEditor(t, book)
	agent := e.open()
	e.prompt(agent, "let agentWas = 'here'; agentWas")
	e.prompt(agent, "agentWas + 2")

	names, items := s.list("?kind=all")
	if !slices.Equal(names, []string{"nightly", "nightly 2"}) || len(items) != 4 {
		t.Fatalf("the list is %q, %+v", names, items)
	}
	if plain, none := s.list(""); !slices.Equal(plain, names) || none != nil {
		t.Errorf("without a kind the list is %q, %v", plain, none)
	}
	of := map[string]listedSession{}
	for _, item := range items {
		of[item.Kind+" "+deref(item.Name)] = item
	}
	acp, logical, night := of["acp let agentWas = 'here'; agentWas"], of["logical keeps a heap"], of["named nightly"]
	if acp.SessionID != agent || acp.Runs != 2 || acp.Head == nil || logical.SessionID != s.id || logical.Runs != 3 || night.Runs != 1 || night.Head == nil {
		t.Errorf("the list is %+v", items)
	}
	if _, items := s.list("?kind=acp"); len(items) != 1 || items[0].SessionID != agent {
		t.Errorf("ACP sessions: %+v", items)
	}

	get := func(path string, into any) (int, string) {
		status, raw := call(t, http.MethodGet, s.base+path, nil, into)
		return status, string(raw)
	}
	for text, want := range map[string]listedSession{
		"nightly": night, "keeps a heap": logical, "keeps": logical, s.id: logical, s.id[:10]: logical, agent: acp, "let agent": acp, night.SessionID: night,
	} {
		key := url.PathEscape(text)
		var log struct {
			Session listedSession
			Entries []map[string]any
		}
		if status, raw := get("/api/sessions/"+key+"/entries", &log); status != http.StatusOK || log.Session.SessionID != want.SessionID || int64(len(log.Entries)) != want.Runs {
			t.Errorf("the log of %q: %d: %s", text, status, raw)
		}
		var page struct{ Executions []map[string]any }
		if status, raw := get("/api/executions?limit=100&session="+url.QueryEscape(text), &page); status != http.StatusOK || int64(len(page.Executions)) != want.Runs {
			t.Errorf("the executions of %q: %d: %s", text, status, raw)
		}
		status, replay := get("/api/sessions/"+key+"/replay?speed=max", nil)
		if status != http.StatusOK || int64(strings.Count(replay, `"daybook.execution.requested.v1"`)) != want.Runs || want.Kind == "logical" && !strings.Contains(replay, `"daybook.session.opened.v1"`) ||
			want.Kind == "acp" && !strings.Contains(replay, `"daybook.acp.prompted.v1"`) {
			t.Errorf("the replay of %q: %d: %s", text, status, replay)
		}
		if status, list := get("/api/events?session="+url.QueryEscape(text), nil); status != http.StatusOK || strings.Count(list, "\n") != strings.Count(replay, "\n") {
			t.Errorf("the events of %q: %d: %s", text, status, list)
		}
	}
	if status, raw := get("/api/sessions/night", nil); status != http.StatusConflict || !strings.Contains(raw, "nightly 2") || !strings.Contains(raw, "named") {
		t.Errorf("an ambiguous prefix: %d: %s", status, raw)
	}
	if status, raw := get("/api/sessions/nothing", nil); status != http.StatusNotFound {
		t.Errorf("an unknown session: %d: %s", status, raw)
	}
	var none struct{ Entries []any }
	if status, raw := get("/api/sessions/nothing/entries", &none); status != http.StatusOK || none.Entries == nil || len(none.Entries) != 0 {
		t.Errorf("the log of an unknown session: %d: %s", status, raw)
	}

	// Resets.
	reset := func(key string, body any) (int, string) {
		path := "/api/sessions/" + url.PathEscape(key) + "/reset"
		if body == nil {
			return request(book, http.MethodPost, path, "")
		}
		status, raw := call(t, http.MethodPost, s.base+path, body, nil)
		return status, string(raw)
	}
	if status, raw := reset("keeps", map[string]any{"heap": first}); status != http.StatusOK || !strings.Contains(raw, first) {
		t.Fatalf("reset: %d: %s", status, raw)
	}
	if got := s.turn("n"); deref(got.Result) != "2" {
		t.Errorf("after the reset n is %s, %s", deref(got.Result), deref(got.Error))
	}
	if status, raw := reset(s.id, nil); status != http.StatusOK || !strings.Contains(raw, `"head":null`) {
		t.Fatalf("reset to a fresh isolate: %d: %s", status, raw)
	}
	if got := s.turn("typeof n"); deref(got.Result) != "undefined" {
		t.Errorf("after the reset to a fresh isolate n is %s", deref(got.Result))
	}
	if status, raw := reset(s.id, map[string]any{"heap": *night.Head}); status != http.StatusBadRequest || !strings.Contains(raw, "not of this session") {
		t.Errorf("a foreign heap: %d: %s", status, raw)
	}
	if status, raw := reset(agent, nil); status != http.StatusOK {
		t.Errorf("reset of an ACP session: %d: %s", status, raw)
	}
	e.prompt(agent, "typeof agentWas")
	if status, raw := reset("nightly", nil); status != http.StatusOK {
		t.Errorf("reset of a named session: %d: %s", status, raw)
	}
	var head struct{ ID *string }
	if status, raw := get("/api/resolve?kind=heap&id=@last&session=nightly", &head); status != http.StatusOK || head.ID == nil || *head.ID != "" {
		t.Errorf("the head of the named session: %d: %s", status, raw)
	}
	left := s.named("nightly", "9")
	if status, raw := get("/api/resolve?kind=heap&id=@last&session=nightly", &head); status != http.StatusOK || *head.ID != *left.Heap {
		t.Errorf("the head of the named session after a run: %d: %s", status, raw)
	}

	// The turns.
	var talk struct {
		Earlier int64
		Moments []struct {
			Run *struct {
				Turn   *int64
				Status events.Status
				Code   struct {
					Text  string
					Bytes int64
				}
				Output, Result, Error *struct{ Text string }
			}
			Reset *struct{ Heap *string }
		}
	}
	if status, raw := get("/api/sessions/"+s.id+"/turns?last=3&max_bytes=5", &talk); status != http.StatusOK || talk.Earlier != 2 || len(talk.Moments) != 5 {
		t.Fatalf("the turns: %d: %s", status, raw)
	}
	m := talk.Moments
	if m[0].Run == nil || m[0].Run.Status != events.StatusFailed || m[0].Run.Code.Text != "throw" || m[0].Run.Code.Bytes != 21 || m[1].Reset == nil || *m[1].Reset.Heap != first ||
		*m[2].Run.Turn != 4 || m[2].Run.Result.Text != "2" || m[3].Reset == nil || m[3].Reset.Heap != nil || m[4].Run == nil {
		t.Errorf("the turns are %+v", m)
	}
	if status, raw := get("/api/sessions/"+agent+"/turns", &talk); status != http.StatusOK || len(talk.Moments) != 4 || !strings.Contains(raw, "agentWas + 2") {
		t.Errorf("the turns of an ACP session: %d: %s", status, raw)
	}

	// Exports of one execution, which its beginning names.
	whole, err := embed.Export(within(t), embed.ExportOptions{Dir: filepath.Join(t.TempDir(), "export"), Server: getFrom(book), Execution: "@last"})
	if err != nil || whole.Events < 3 {
		t.Errorf("export of the newest execution: %+v, %v", whole, err)
	}
	if _, err := embed.Export(within(t), embed.ExportOptions{Dir: filepath.Join(t.TempDir(), "export"), Server: getFrom(book), Execution: "ffffffff"}); err == nil {
		t.Error("an execution that does not exist is exported")
	}

	// Exports of one session, which can be verified.
	for _, text := range []string{"keeps", "let agent", "nightly"} {
		dir := filepath.Join(t.TempDir(), "export")
		done, err := embed.Export(within(t), embed.ExportOptions{Dir: dir, Server: getFrom(book), Session: text})
		if err != nil || done.Events < 5 {
			t.Fatalf("export of %q: %+v, %v", text, done, err)
		}
		if r, err := embed.Verify(within(t), embed.VerifyOptions{Export: dir, Keys: []string{book.AuditKey()}}); err != nil || !r.OK || (r.Entries > 0) != (text == "nightly") {
			t.Errorf("the export of %q: %v\n%s", text, err, r)
		}
		if _, err := exec.LookPath("python3"); err != nil {
			continue
		}
		if out, err := exec.CommandContext(within(t), "python3", filepath.Join("..", "examples", "verify-python", "verify.py"), "--key", book.AuditKey(), dir).CombinedOutput(); err != nil {
			t.Errorf("the export of %q in Python: %v\n%s", text, err, out)
		}
	}
}
