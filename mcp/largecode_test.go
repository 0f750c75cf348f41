package mcp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/resources/budget"
	"daybook/ledger"
	"daybook/mcp"
)

// A large source over HTTP reaches the ledger unchanged, in each form that a message can
// have. Invalid messages are refused like small ones.
func TestLargeCode(t *testing.T) {
	if testing.Short() {
		t.Skip("too slow under the race detector: a MiB of code passes each decoder")
	}
	t.Parallel()
	var got string
	book := &fakeStack{submit: func(_ context.Context, s ledger.Submission) (ledger.Receipt, error) {
		got = s.Code
		return ledger.Receipt{ExecutionID: "one", Seq: 1}, nil
	}}
	s := book.serve(t, mcp.Options{})
	srv := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		_ = s.Close()
		srv.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	_, h, _ := post(t, srv.URL+"/mcp", initializeLine)
	session := []string{"Mcp-Session-Id", h.Get("Mcp-Session-Id")}
	stateless := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "run_js"}
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}},`
	const size = 1 << 20
	plain, escaped := strings.Repeat("ab", size), strings.Repeat(`\u0041\"\n`, size/4)
	for _, c := range []struct{ arguments, want string }{
		{`{"code":"` + plain + `"}`, plain},
		{` { "execution_timeout_secs" : 5, "code" : "` + escaped + `" } `, strings.Repeat("A\"\n", size/4)},
		{`{"code":"` + plain + `\ud800"}`, ""},
		{`{"code":"1","code":"` + plain + `"}`, ""},
		{`{"code":["` + plain + `"]}`, ""},
		{`{"code":"1","tags":{"a":"` + plain + `"}}`, "1"},
	} {
		for with, headers := range map[string][]string{"": session, meta: stateless} {
			got = ""
			_, _, body := post(t, srv.URL+"/mcp", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run_js",`+with+`"arguments":`+c.arguments+`}}`, headers...)
			if got != c.want || strings.Contains(body, `"isError":true`) != (c.want == "") {
				t.Errorf("%s: %.60s: the code has %d bytes, want %d: %.300s", headers[0], c.arguments, len(got), len(c.want), body)
			}
		}
	}
}

// A client that waits for the end of a run holds no memory for its source.
func TestWaitingHoldsNoMemoryForLargeCode(t *testing.T) {
	t.Parallel()
	b := budget.New(budget.Options{Answers: 64 << 20, Runs: 1, Cache: 1})
	run := newRun("")
	s := run.stack().serve(t, mcp.Options{Budget: b})
	handler := s.Handler()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		account := b.Answer(events.DefaultTenant, 1) // as the HTTP server does for the body
		defer account.Release()
		if err := account.TakeOnce(16 << 20); err != nil {
			t.Error(err)
		}
		handler.ServeHTTP(w, r.WithContext(budget.With(r.Context(), account)))
	}))
	t.Cleanup(func() {
		_ = s.Close()
		srv.Close()
	})
	_, h, _ := post(t, srv.URL+"/mcp", initializeLine)
	answered := make(chan string, 1)
	go func() {
		_, _, body := post(t, srv.URL+"/mcp", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run_js","arguments":{"wait_secs":60,"code":"`+strings.Repeat("a", 4<<20)+`"}}}`,
			"Mcp-Session-Id", h.Get("Mcp-Session-Id"))
		answered <- body
	}()
	held := false
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		used := b.Stats().Answers.Used
		if held = held || used > 0; held && used == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("%d bytes are held while the client waits", used)
			break
		}
	}
	select {
	case body := <-answered:
		t.Errorf("the call is answered before the run ended: %.300s", body)
	default:
	}
	run.end(events.StatusCompleted, nil)
	if body := <-answered; !strings.Contains(body, "completed") {
		t.Errorf("the answer is %.300s", body)
	}
}

// A message that is large without its code takes the memory of its copies too: it is refused if
// there is not so much.
func TestLargeMessageWithLargeCode(t *testing.T) {
	t.Parallel()
	b := budget.New(budget.Options{Answers: 64 << 20, Runs: 1, Cache: 1})
	s := new(fakeStack).serve(t, mcp.Options{Budget: b})
	handler := s.Handler()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		account := b.Answer(events.DefaultTenant, 1) // as the HTTP server does for the body
		defer account.Release()
		if err := account.TakeOnce(4 * max(r.ContentLength, 0)); err != nil {
			t.Error(err)
		}
		handler.ServeHTTP(w, r.WithContext(budget.With(r.Context(), account)))
	}))
	t.Cleanup(func() {
		_ = s.Close()
		srv.Close()
	})
	_, h, _ := post(t, srv.URL+"/mcp", initializeLine)
	other := b.Answer("other", 1)
	defer other.Release()
	if err := other.TakeOnce(34 << 20); err != nil {
		t.Fatal(err)
	}
	call := func(rest int) int {
		status, _, _ := post(t, srv.URL+"/mcp", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run_js","arguments":{"code":"`+strings.Repeat("a", 1<<20)+`","tags":{"a":"`+strings.Repeat("b", rest)+`"}}}}`,
			"Mcp-Session-Id", h.Get("Mcp-Session-Id"))
		return status
	}
	if got := call(1); got != http.StatusOK {
		t.Errorf("a small rest: status %d", got)
	}
	if got := call(4 << 20); got != http.StatusServiceUnavailable {
		t.Errorf("a large rest: status %d, want 503", got)
	}
}
