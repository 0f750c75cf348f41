package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"daybook/embed"
	"daybook/events"
	"daybook/internal/web/client"
)

// TestClient shares one server among requests that do not affect each other.
func TestClient(t *testing.T) {
	t.Parallel()
	base := start(t, embed.Options{Slots: embed.SlotOptions{Total: 2}, Content: embed.ContentOptions{Erasable: true}})
	c := client.New(base+"/", client.Options{UserAgent: "test/1"})
	t.Cleanup(c.CloseIdle)
	t.Run("together", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *client.Client){
			"executions": executions, "output": output, "cancel": cancel, "heaps": heaps, "sessions": sessions,
			"context": conversation, "webhooks": webhooks, "errors": refusals,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, c)
			})
		}
	})
	t.Run("ledger", func(t *testing.T) { ledgerOf(t, c) })
}

func executions(t *testing.T, c *client.Client) {
	ctx := within(t)
	receipt, err := c.Submit(ctx, client.Run{Code: "6 * 7 // executions", FileName: "six.js", Session: "executions", Key: "once"})
	if err != nil || receipt.Sequence == 0 {
		t.Fatalf("%+v, %v", receipt, err)
	}
	id := receipt.Body.ExecutionID
	again, err := c.Submit(ctx, client.Run{Code: "6 * 7 // executions", FileName: "six.js", Session: "executions", Key: "once"})
	if err != nil || again.Body.ExecutionID != id {
		t.Errorf("with the same key: %+v, %v", again, err)
	}
	ended, err := c.Wait(ctx, id)
	if err != nil || ended.Body.Status != events.StatusCompleted || ended.Body.Result == nil || *ended.Body.Result != "42" || ended.Body.Actor.Client != "test/1" {
		t.Fatalf("%s, %v", ended.JSON, err)
	}
	var raw map[string]any
	if err := json.Unmarshal(ended.JSON, &raw); err != nil || raw["execution_id"] != id || ended.Sequence != 0 {
		t.Errorf("%s, %d, %v", ended.JSON, ended.Sequence, err)
	}
	page := must[client.Answer[client.ExecutionPage]](t)(c.Executions(ctx, client.ExecutionFilter{Session: "executions", Status: "completed", Text: "// EXECUTIONS", Limit: 10})).Body
	if len(page.Executions) != 1 || page.Executions[0].ExecutionID != id {
		t.Errorf("listed: %+v", page)
	}
	if got, err := c.Resolve(ctx, "execution", id[:len(id)-1], ""); err != nil || got != id {
		t.Errorf("resolved: %s, %v", got, err)
	}
	text, err := c.Text(ctx, id, "code")
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	if code, err := io.ReadAll(text); err != nil || string(code) != "6 * 7 // executions" {
		t.Errorf("the code is %q, %v", code, err)
	}
	if calls, err := c.Calls(ctx, id); err != nil || len(calls.Body.Calls) != 0 {
		t.Errorf("host calls: %s, %v", calls.JSON, err)
	}
	var types []string
	for e, err := range c.ExecutionEvents(ctx, id) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Subject != id || !bytes.Contains(e.JSON, []byte(e.ID)) {
			t.Errorf("the event %+v is about another execution", e)
		}
		types = append(types, e.Type)
	}
	if len(types) < 3 || types[0] != string(events.TypeExecutionRequested) || types[1] != string(events.TypeExecutionStarted) {
		t.Errorf("events: %v", types)
	}
}

func output(t *testing.T, c *client.Client) {
	ctx := within(t)
	e := run(t, c, client.Run{Code: "for (let i = 1; i <= 300; i++) console.log('line', i)"})
	var lines []string
	for o, err := range c.FollowOutput(ctx, e.ExecutionID) {
		if err != nil {
			t.Fatal(err)
		}
		if o.Truncated != nil || o.Line.Line != int64(len(lines)+1) || !json.Valid(o.JSON) {
			t.Errorf("message %+v", o)
		}
		lines = append(lines, o.Line.Text+"\n")
	}
	var pages strings.Builder
	for offset := int64(0); ; {
		page := must[client.Answer[client.OutputPage]](t)(c.Output(ctx, e.ExecutionID, offset, 1000)).Body
		pages.WriteString(page.Data)
		if offset = page.NextByteOffset; !page.HasMore {
			break
		}
	}
	if len(lines) != 300 || pages.String() != strings.Join(lines, "") {
		t.Errorf("%d lines followed, pages of %d bytes", len(lines), pages.Len())
	}
}

func cancel(t *testing.T, c *client.Client) {
	ctx := within(t)
	receipt := must[client.Answer[client.Receipt]](t)(c.Submit(ctx, client.Run{Code: "console.log('on'); await new Promise(() => setInterval(() => {}, 1000))"}))
	id := receipt.Body.ExecutionID
	for o, err := range c.FollowOutput(ctx, id) {
		if err != nil || o.Line.Text != "on" {
			t.Fatalf("%+v, %v", o, err)
		}
		break // the loop may end before the execution
	}
	if e, err := c.Await(ctx, id, 0); err != nil || e.Body.Status != events.StatusRunning {
		t.Errorf("%s, %v", e.JSON, err)
	}
	if done, err := c.Cancel(ctx, id); err != nil || !done.Body.OK || done.Sequence == 0 {
		t.Errorf("%+v, %v", done, err)
	}
	if e, err := c.Wait(ctx, id); err != nil || e.Body.Status != events.StatusCancelled {
		t.Errorf("%s, %v", e.JSON, err)
	}
}

func heaps(t *testing.T, c *client.Client) {
	ctx := within(t)
	first := run(t, c, client.Run{Code: "globalThis.heaps = 1", Tags: map[string]string{"of": "heaps"}})
	second := run(t, c, client.Run{Code: "heaps + 1", Heap: *first.Heap, RequireHeap: true})
	key := *second.Heap
	if key == *first.Heap || *second.Result != "2" {
		t.Fatalf("%+v", second)
	}
	if page := must[client.Answer[client.HeapPage]](t)(c.Heaps(ctx, client.HeapFilter{Tags: []string{"of=heaps"}, Limit: 1})).Body; len(page.Heaps) != 1 || page.Heaps[0].Heap != *first.Heap {
		t.Errorf("found: %+v", page)
	}
	if h, err := c.Heap(ctx, key); err != nil || h.Body.Parent == nil || *h.Body.Parent != *first.Heap {
		t.Errorf("%s, %v", h.JSON, err)
	}
	if l, err := c.Lineage(ctx, key); err != nil || len(l.Body.Lineage) != 2 || l.Body.Lineage[1].ExecutionID != first.ExecutionID {
		t.Errorf("%s, %v", l.JSON, err)
	}
	if done, err := c.SetTags(ctx, key, map[string]string{"a": "1", "b": "2"}); err != nil || !done.Body.OK {
		t.Errorf("%s, %v", done.JSON, err)
	}
	if done, err := c.DeleteTags(ctx, key, []string{"a"}); err != nil || !done.Body.OK {
		t.Errorf("%s, %v", done.JSON, err)
	}
	if tags, err := c.Tags(ctx, key); err != nil || cmp.Diff(map[string]string{"b": "2"}, tags.Body.Tags) != "" {
		t.Errorf("%s, %v", tags.JSON, err)
	}
	page := must[client.Answer[client.Tags]](t)(c.TagHistory(ctx, key, 1, "")).Body
	if rest, err := c.TagHistory(ctx, key, 1, page.NextCursor); err != nil || len(page.History) != 1 || len(rest.Body.History) != 1 || rest.Body.NextCursor != "" {
		t.Errorf("%+v, %s, %v", page, rest.JSON, err)
	}
	if report, err := c.Collect(ctx, client.CollectRule{OlderThanSecs: 3600, KeepEntries: 1, DryRun: true}); err != nil || !report.Body.DryRun || report.Body.Heaps < 2 {
		t.Errorf("%s, %v", report.JSON, err)
	}
}

func sessions(t *testing.T, c *client.Client) {
	ctx := within(t)
	const name = "a/b ?#%"
	e := run(t, c, client.Run{Code: "console.log('out'); 1", Session: name})
	if log, err := c.Entries(ctx, name); err != nil || len(log.Body.Entries) != 1 || log.Body.Entries[0].ExecutionID != e.ExecutionID {
		t.Errorf("%s, %v", log.JSON, err)
	}
	s := must[client.Answer[client.Session]](t)(c.Session(ctx, name)).Body
	if s.Kind != events.SessionLog || s.Name == nil || *s.Name != name || *s.Head != *e.Heap {
		t.Errorf("%+v", s)
	}
	turns := must[client.Answer[client.Turns]](t)(c.Turns(ctx, name, 5, 2)).Body
	if len(turns.Moments) != 1 || turns.Moments[0].Run == nil || turns.Moments[0].Run.Output != (client.Excerpt{Text: "ou", Bytes: 4}) || turns.Session.SessionID != s.SessionID {
		t.Errorf("%+v", turns)
	}
	if reset, err := c.ResetSession(ctx, name, "", "key"); err != nil || reset.Body.Head != nil || reset.Body.Kind != s.Kind {
		t.Errorf("%s, %v", reset.JSON, err)
	}
	opened := must[client.Answer[client.Opened]](t)(c.OpenSession(ctx, client.Opening{Intent: "sessions", Seeds: []string{"builtin.console"}})).Body
	if !opened.New || len(opened.Added) != 1 || !strings.Contains(opened.Declarations, opened.Added[0].Declaration) {
		t.Errorf("%+v", opened)
	}
	if turn := run(t, c, client.Run{Code: "1", LogicalSession: opened.SessionID}); turn.Turn == nil || *turn.Turn != 1 {
		t.Errorf("%+v", turn)
	}
	if list, err := c.Sessions(ctx, "logical", 10, "", false); err != nil || len(list.Body.Items) != 1 || list.Body.Items[0].SessionID != opened.SessionID {
		t.Errorf("%s, %v", list.JSON, err)
	}
	replay, err := c.Replay(ctx, name, client.ReplayRange{Speed: "max"})
	if err != nil {
		t.Fatal(err)
	}
	defer replay.Body.Close()
	if raw, err := io.ReadAll(replay.Body); err != nil || !bytes.Contains(raw, []byte(`"replayed":true`)) {
		t.Errorf("replay: %s, %v", raw, err)
	}
	if done, err := c.Shred(ctx, name, true); err != nil || done.Body.Executions != 1 || done.Body.Seq == 0 {
		t.Errorf("%s, %v", done.JSON, err)
	}
}

func conversation(t *testing.T, c *client.Client) {
	ctx, of := within(t), client.ContextOf{Session: "conversation"}
	patch := client.ContextPatch{UserPreferences: map[string]any{"max_results": 7}, Custom: map[string]any{"k": []int{1}}}
	if set, err := c.SetContext(ctx, of, patch); err != nil || set.Sequence == 0 {
		t.Fatalf("%s, %v", set.JSON, err)
	}
	if got, err := c.Context(ctx, of); err != nil || got.Body.UserPreferences.MaxResults != 7 || string(got.Body.Custom["k"]) != "[1]" {
		t.Errorf("%s, %v", got.JSON, err)
	}
	if done, err := c.ClearContext(ctx, of); err != nil || !bytes.Contains(done.JSON, []byte(`"cleared"`)) {
		t.Errorf("%s, %v", done.JSON, err)
	}
}

func webhooks(t *testing.T, c *client.Client) {
	ctx := within(t)
	after := uint64(0)
	added, err := c.AddWebhook(ctx, client.NewWebhook{URL: "https://hooks.invalid/", Types: []string{string(events.TypeExecutionCompleted)}, Session: "webhooks", After: &after})
	if err != nil || added.Body.Secret == "" || added.Body.Session != "webhooks" {
		t.Fatalf("%s, %v", added.JSON, err)
	}
	if list, err := c.Webhooks(ctx); err != nil || len(list.Body.Webhooks) != 1 || list.Body.Webhooks[0].ID != added.Body.ID {
		t.Errorf("%s, %v", list.JSON, err)
	}
	if letters, err := c.DeadLetters(ctx, added.Body.ID); err != nil || len(letters.Body.DeadLetters) != 0 {
		t.Errorf("%s, %v", letters.JSON, err)
	}
	if e := refusal(t, http.StatusBadRequest)(c.RetryWebhook(ctx, added.Body.ID, nil)); e != nil && !strings.Contains(e.Message, "nothing to retry") {
		t.Errorf("%+v", e)
	}
	if done, err := c.RemoveWebhook(ctx, added.Body.ID); err != nil || !done.Body.OK {
		t.Errorf("%s, %v", done.JSON, err)
	}
}

func ledgerOf(t *testing.T, c *client.Client) {
	ctx := within(t)
	if err := c.Ready(ctx); err != nil {
		t.Error(err)
	}
	sealed, err := c.Seal(ctx)
	if err != nil || !sealed.Body.Sealed || sealed.Body.Volume != 1 {
		t.Fatalf("%s, %v", sealed.JSON, err)
	}
	if list, err := c.Volumes(ctx); err != nil || len(list.Body.Volumes) != 2 || list.Body.Volumes[0].Last != sealed.Body.Last || list.Body.Removed != nil {
		t.Errorf("%s, %v", list.JSON, err)
	}
	refused := refusal(t, http.StatusConflict)(c.Remove(ctx, 1, strings.Repeat("0", 64)))
	if refused != nil && refused.IsTemporary() {
		t.Errorf("%+v", refused)
	}
	if found, err := c.Damage(ctx); err != nil || found.Body.Damaged || len(found.Body.Findings) != 0 {
		t.Errorf("%s, %v", found.JSON, err)
	}
	if found, err := c.Anomalies(ctx); err != nil || found.Body.RuleBroken+found.Body.UnknownType != 0 {
		t.Errorf("%s, %v", found.JSON, err)
	}
	if progress, err := c.Scrub(ctx); err != nil || progress.Body.Position > progress.Body.End {
		t.Errorf("%s, %v", progress.JSON, err)
	}
}

// refusal checks that a request was refused with a status.
func refusal(t *testing.T, status int) func(any, error) *client.Error {
	t.Helper()
	return func(_ any, err error) *client.Error {
		t.Helper()
		refused, ok := errors.AsType[*client.Error](err)
		if !ok || refused.Status != status || refused.Message == "" || errors.Is(err, client.ErrNoServer) {
			t.Errorf("the error is %#v, want the status %d", err, status)
		}
		return refused
	}
}

func refusals(t *testing.T, c *client.Client) {
	ctx := within(t)
	const nothing = "01990000-0000-7000-8000-00000000dead"
	for name, refused := range map[string]*client.Error{
		"execution": refusal(t, http.StatusNotFound)(c.Execution(ctx, nothing)),
		"text":      refusal(t, http.StatusNotFound)(c.Text(ctx, nothing, "code")),
	} {
		if refused == nil || refused.Code != "not_found" || refused.IsTemporary() {
			t.Errorf("%s: %+v", name, refused)
		}
	}
	if e := refusal(t, http.StatusNotFound)(c.Session(ctx, "none")); e != nil && e.Field != "session" {
		t.Errorf("%+v", e)
	}
	for _, err := range c.FollowOutput(ctx, nothing) {
		refusal(t, http.StatusNotFound)(nil, err)
	}
	for _, err := range c.ExecutionEvents(ctx, nothing) {
		refusal(t, http.StatusNotFound)(nil, err)
	}
	for _, err := range c.Events(ctx, client.From{Types: []string{"none"}}) {
		refusal(t, http.StatusBadRequest)(nil, err)
	}
}

// The answers and errors of programs that are not servers of Daybook.
func TestNoServer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	silent := "http://" + l.Addr().String()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<h1>other</h1>") }))
	t.Cleanup(other.Close)
	l.Close()
	for _, base := range []string{silent, other.URL} {
		c := client.New(base, client.Options{})
		_, err := c.Execution(within(t), "one")
		if _, refused := errors.AsType[*client.Error](err); !errors.Is(err, client.ErrNoServer) || refused {
			t.Errorf("%s: %v", base, err)
		}
		for _, err := range c.ExecutionEvents(within(t), "one") {
			if !errors.Is(err, client.ErrNoServer) {
				t.Errorf("%s: events: %v", base, err)
			}
		}
		done, stop := context.WithCancel(within(t))
		stop()
		if _, err := c.Execution(done, "one"); errors.Is(err, client.ErrNoServer) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: with a context that is done: %v", base, err)
		}
		c.CloseIdle()
	}
}

// A token reaches only the server that was named.
func TestTokenIsNotRedirected(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the other server receives %s %s, token %q", r.Method, r.URL, r.Header.Get("Authorization"))
	}))
	t.Cleanup(elsewhere.Close)
	var tokens []string
	named := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens = append(tokens, r.Header.Get("Authorization"))
		http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(named.Close)
	for _, h := range []client.Doer{nil, &http.Client{}} {
		c := client.New(named.URL, client.Options{Token: "secret", HTTP: h})
		if e := refusal(t, http.StatusTemporaryRedirect)(c.Submit(within(t), client.Run{Code: "1"})); e != nil && !strings.HasPrefix(e.Location, elsewhere.URL) {
			t.Errorf("%+v", e)
		}
		c.CloseIdle()
	}
	if diff := cmp.Diff([]string{"Bearer secret", "Bearer secret"}, tokens); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
}

// Error texts of programs other than Daybook, and limits that do not reset with time.
func TestErrorAnswers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		status        int
		body, message string
		temporary     bool
	}{
		{http.StatusConflict, `{"error":"it is done","detail":"more"}`, "it is done", false},
		{http.StatusConflict, `{"detail":"only detail"}`, "only detail", false},
		{http.StatusBadGateway, "<h1>proxy</h1>\n", "<h1>proxy</h1>", true},
		{http.StatusBadGateway, strings.Repeat("x", 1<<20), strings.Repeat("x", 64<<10), true},
		{http.StatusTooManyRequests, `{"error":"over a quota"}`, "over a quota", true},
		{http.StatusTooManyRequests, `{"error":"over a quota","permanent":true}`, "over a quota", false},
		{http.StatusServiceUnavailable, "", "the server answered 503 Service Unavailable", true},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(test.status)
			_, _ = io.WriteString(w, test.body)
		}))
		c := client.New(server.URL, client.Options{})
		if e := refusal(t, test.status)(c.Cancel(within(t), "one")); e != nil && (e.Message != test.message || e.Error() != test.message || e.IsTemporary() != test.temporary) {
			t.Errorf("%d %.60s: %.100s, temporary %t", test.status, test.body, e.Message, e.IsTemporary())
		}
		c.CloseIdle()
		server.Close()
	}
}

// A list that is null is not the empty list of a Daybook server.
func TestNullList(t *testing.T) {
	t.Parallel()
	for text, foreign := range map[string]bool{`{"webhooks": null}`: true, `{"webhooks":[null]}`: true, `{"webhooks":[]}`: false} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }))
		c := client.New(server.URL, client.Options{})
		if _, err := c.Webhooks(within(t)); errors.Is(err, client.ErrNoServer) != foreign {
			t.Errorf("%s: %v", text, err)
		}
		c.CloseIdle()
		server.Close()
	}
}
