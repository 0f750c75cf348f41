package mcp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"daybook/internal/resources/budget"
	"daybook/internal/resources/reads"
	"daybook/ledger"
	"daybook/mcp"
)

// The memory of a call over HTTP is held until the response is written; on other
// transports until the call ends. A call without free memory is refused with a message.
func TestCallsAreAccountedFor(t *testing.T) {
	t.Parallel()
	b := budget.New(budget.Options{Answers: 1000, Runs: 1, Cache: 1, Patience: time.Millisecond})
	take := int64(100) // six copies
	book := &fakeStack{submit: func(ctx context.Context, _ ledger.Submission) (ledger.Receipt, error) {
		if err := budget.From(ctx).Take(take); err != nil {
			return ledger.Receipt{}, err
		}
		return ledger.Receipt{ExecutionID: "one", Seq: 1}, nil
	}}
	s := book.serve(t, mcp.Options{Budget: b})
	var account *budget.Account
	inner := s.Handler()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		account = b.Answer("default", 1)
		inner.ServeHTTP(w, r.WithContext(budget.With(r.Context(), account)))
	}))
	t.Cleanup(func() {
		_ = s.Close()
		srv.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	const call = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run_js","arguments":{"code":"1"}}}`
	_, h, _ := post(t, srv.URL+"/mcp", initializeLine)
	session := []string{"Mcp-Session-Id", h.Get("Mcp-Session-Id"), "Daybook-Account", "forged"}
	if status, _, body := post(t, srv.URL+"/mcp", call, session...); status != 200 || strings.Contains(body, `"isError":true`) {
		t.Fatalf("%d %s", status, body)
	}
	if account.Held() != 600 {
		t.Errorf("the request holds %d bytes after the call; want six times 100", account.Held())
	}
	account.Release()
	take = 200
	if _, _, body := post(t, srv.URL+"/mcp", call, session...); !strings.Contains(body, `"isError":true`) || !strings.Contains(body, "a larger --memory-budget") {
		t.Errorf("a call that needs too much: %s", body)
	}
	account.Release()

	take = 100
	p := openPipe(t, s, "")
	p.initialize()
	if r := p.tool("run_js", `{"code":"1"}`); r.IsError {
		t.Errorf("over a pipe: %+v", r)
	}
	awaitHeld(t, b, 0)
}

// awaitHeld waits until answers hold want bytes.
func awaitHeld(t *testing.T, b *budget.Budget, want int64) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); b.Stats().Answers.Used != want; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("answers hold %d bytes, want %d", b.Stats().Answers.Used, want)
		}
	}
}

// An answer over a pipe holds its memory until the client reads it. Calls without free
// memory are refused.
func TestUnreadAnswersHoldMemory(t *testing.T) {
	t.Parallel()
	b := budget.New(budget.Options{Answers: 3000, Runs: 1, Cache: 1, Patience: time.Millisecond})
	book := &fakeStack{submit: func(ctx context.Context, _ ledger.Submission) (ledger.Receipt, error) {
		return ledger.Receipt{ExecutionID: "one", Seq: 1}, budget.From(ctx).Take(100) // six copies
	}}
	p := openPipe(t, book.serve(t, mcp.Options{Budget: b}), "")
	p.initialize()
	call := func(id int) {
		p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"run_js","arguments":{"code":"1"}}}`, 10+id))
	}
	call(1)
	awaitHeld(t, b, 600)
	call(2)
	awaitHeld(t, b, 1200)
	call(3)
	for deadline := time.Now().Add(10 * time.Second); b.Stats().Refused == 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond) // the first answers are read after it
	}
	var refused int
	for range 3 {
		if m := p.receive(); strings.Contains(string(m["result"]), `"isError":true`) {
			refused++
		}
	}
	if refused != 1 {
		t.Errorf("%d of three calls are refused, want one", refused)
	}
	awaitHeld(t, b, 0)
}

// A connection over a pipe has a bounded number of calls in progress. Calls beyond
// freeCalls hold memory before their answers, and calls beyond the bound wait.
func TestPipeCallsAreBounded(t *testing.T) {
	t.Parallel()
	const most, free, each = 128, 8, 64 << 10
	b := budget.New(budget.Options{Answers: 1 << 30, Runs: 1, Cache: 1, Patience: time.Millisecond})
	proceed := make(chan struct{})
	book := &fakeStack{submit: func(ctx context.Context, _ ledger.Submission) (ledger.Receipt, error) {
		select {
		case <-proceed:
		case <-ctx.Done():
		}
		return ledger.Receipt{ExecutionID: "one", Seq: 1}, nil
	}}
	p := openPipe(t, book.serve(t, mcp.Options{Budget: b}), "")
	p.initialize()
	go func() {
		for i := range most + 100 {
			fmt.Fprintf(p.in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"run_js","arguments":{"code":"1"}}}`+"\n", 10+i)
		}
	}()
	awaitHeld(t, b, (most-free)*each)
	close(proceed)
	for range most + 100 {
		if m := p.receive(); m["result"] == nil {
			t.Errorf("a call is answered with %s", m)
		}
	}
	awaitHeld(t, b, 0)
	p.call("ping", `{}`)
}

// A call with the id of one in progress is refused without that id, and holds no memory.
func TestPipeCallsWithOneID(t *testing.T) {
	t.Parallel()
	b := budget.New(budget.Options{Answers: 1 << 30, Runs: 1, Cache: 1})
	proceed := make(chan struct{})
	book := &fakeStack{submit: func(ctx context.Context, _ ledger.Submission) (ledger.Receipt, error) {
		<-proceed
		return ledger.Receipt{ExecutionID: "one", Seq: 1}, nil
	}}
	p := openPipe(t, book.serve(t, mcp.Options{Budget: b}), "")
	p.initialize()
	call := `{"jsonrpc":"2.0","id":"same","method":"tools/call","params":{"name":"run_js","arguments":{"code":"` + strings.Repeat("1", 100<<10) + `"}}}`
	p.send(call)
	p.send(call)
	if m := p.receive(); string(m["id"]) != "null" || !strings.Contains(string(m["error"]), `"code":-32600`) {
		t.Errorf("the second call is answered with %s", m)
	}
	close(proceed)
	if m := p.receive(); string(m["id"]) != `"same"` || m["result"] == nil {
		t.Errorf("the first call is answered with %s", m)
	}
	awaitHeld(t, b, 0)
}

// The permit for heavy reads of a call in a session ends with the call. It is not the
// permit of the HTTP request that opened the session, whose context the SDK gives to the
// calls.
func TestPermitsEndWithTheirCall(t *testing.T) {
	t.Parallel()
	gate := reads.New(reads.Options{Running: 1})
	var opened *reads.Permit
	book := &fakeStack{submit: func(ctx context.Context, _ ledger.Submission) (ledger.Receipt, error) {
		if p := reads.From(ctx); p == nil || p == opened {
			t.Errorf("the permit of the call is %p, that of the first request %p", p, opened)
		}
		return ledger.Receipt{ExecutionID: "one", Seq: 1}, reads.From(ctx).Take(ctx) // as a long text does
	}}
	s := book.serve(t, mcp.Options{Reads: gate})
	inner := s.Handler()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := gate.Permit("default")
		defer p.Yield()
		if opened == nil {
			opened = p
		}
		inner.ServeHTTP(w, r.WithContext(reads.With(r.Context(), p)))
	}))
	t.Cleanup(func() {
		_ = s.Close()
		srv.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	_, h, _ := post(t, srv.URL+"/mcp", initializeLine)
	for i := range 3 {
		call := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"run_js","arguments":{"code":"1"}}}`, i+2)
		if status, _, body := post(t, srv.URL+"/mcp", call, "Mcp-Session-Id", h.Get("Mcp-Session-Id")); status != 200 || strings.Contains(body, `"isError":true`) {
			t.Fatalf("%d %s", status, body)
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	p := gate.Permit("default")
	if err := p.Take(ctx); err != nil {
		t.Errorf("a read after the calls: %v, %+v", err, gate.Stats())
	}
	p.Yield()
}
