package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/events"
	"daybook/ledger"
	"daybook/mcp"
	"daybook/projections"
)

// oneRun is a stack with one execution, which the test ends.
type oneRun struct {
	mu        sync.Mutex
	detail    projections.ExecutionDetail
	changed   chan struct{}
	watched   chan struct{} // signalled when changed is closed
	lines     []projections.OutputLine
	output    string
	more      bool
	cancelled chan string
}

func newRun(output string) *oneRun {
	return &oneRun{
		detail:  projections.ExecutionDetail{Execution: projections.Execution{ExecutionID: "one", Status: events.StatusRunning}, TotalBytes: int64(len(output))},
		changed: make(chan struct{}), watched: make(chan struct{}, 1), output: output, cancelled: make(chan string, 1),
	}
}

func (r *oneRun) end(status events.Status, message *string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.detail.Status, r.detail.Error, r.detail.Seq = status, message, 9
	if status == events.StatusCompleted {
		r.detail.Result = new("7")
	}
	r.signal()
}

// signal wakes the watcher. The caller must hold the lock.
func (r *oneRun) signal() {
	close(r.changed)
	r.changed = make(chan struct{})
	select {
	case r.watched <- struct{}{}:
	default:
	}
}

func (r *oneRun) stack() *fakeStack {
	return &fakeStack{
		submit: func(context.Context, ledger.Submission) (ledger.Receipt, error) {
			return ledger.Receipt{ExecutionID: "one", Seq: 1}, nil
		},
		execution: func(string) (projections.ExecutionDetail, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.detail, nil
		},
		changed: func() <-chan struct{} {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.changed
		},
		output: func(string, projections.OutputQuery) (projections.OutputPage, error) {
			n := int64(len(r.output))
			p := projections.OutputPage{Data: r.output, EndByte: n, TotalBytes: n}
			if r.more {
				p.HasMore, p.TotalBytes = true, n+100
			}
			return p, nil
		},
		lines:   r.readLines,
		watched: r.watched,
		cancel: func(_ context.Context, id string) (uint64, error) {
			r.cancelled <- id
			return 9, nil
		},
	}
}

// connect opens an in-memory connection to a server.
func connect(t testing.TB, s *mcp.Server) *sdk.ClientSession {
	t.Helper()
	p := openPipe(t, s, "")
	c := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	cs, err := c.Connect(context.Background(), &sdk.IOTransport{Reader: readCloser{p}, Writer: p.in}, &sdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	return cs
}

// readCloser reads a pipe's output. Close closes the pipe's input, and the server then
// ends the output.
type readCloser struct{ p *pipe }

func (r readCloser) Read(b []byte) (int, error) { return r.p.out.Read(b) }
func (r readCloser) Close() error               { return r.p.in.Close() }

func TestStatelessEndings(t *testing.T) {
	t.Parallel()
	boom := "Error: boom"
	for _, c := range []struct {
		name   string
		status events.Status
		err    *string
		output string
		more   bool
		want   string
	}{
		{"completed", events.StatusCompleted, nil, "a\nb\n", false, `{"output":"a\nb\n","result":"7"}`},
		{"silent", events.StatusCompleted, nil, "", false, `{"output":"","result":"7"}`},
		{"failed", events.StatusFailed, &boom, "a <b>\n", false, `{"output":"a <b>\n","result":null,"error":"Error: boom"}`},
		{"long", events.StatusCompleted, nil, "a\n", true, `{"output":"a\n\n[output cut: 2 of 102 bytes shown]\n","result":"7"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			run := newRun(c.output)
			run.more = c.more
			run.end(c.status, c.err)
			p := openPipe(t, run.stack().serve(t, mcp.Options{Stateless: true}), "")
			p.initialize()
			r := p.tool("run_js", `{"code":"x"}`)
			if r.IsError || len(r.Content) != 1 || r.Content[0].Text != c.want {
				t.Errorf("got %+v, want %s", r, c.want)
			}
			var text, structured any
			if err := json.Unmarshal([]byte(r.Content[0].Text), &text); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(r.StructuredContent, &structured); err != nil {
				t.Fatal(err)
			}
			if a, b := mustJSON(t, text), mustJSON(t, structured); a != b {
				t.Errorf("text %s differs from structuredContent %s", a, b)
			}
		})
	}
}

func mustJSON(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestStatelessReads counts the reads of a run whose request is not readable yet when the wait
// for its end begins. A client that has not asked for notifications needs one, and none of
// output that is empty.
func TestStatelessReads(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, meta, output                string
		executions, commits, wantedOutput int
	}{
		{"quiet", "", "", 1, 0, 0},
		{"with output", "", "a\n", 1, 0, 1},
		{"with progress", `,"_meta":{"progressToken":"t"}`, "", 3, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				run := newRun(c.output)
				book := run.stack()
				book.applied = func() uint64 { return 0 }
				var executions, outputs int // the calls of one request do not overlap
				read, print := book.execution, book.output
				book.execution = func(id string) (projections.ExecutionDetail, error) {
					executions++
					return read(id)
				}
				book.output = func(id string, q projections.OutputQuery) (projections.OutputPage, error) {
					outputs++
					return print(id, q)
				}
				p := openPipe(t, book.serve(t, mcp.Options{Stateless: true}), "")
				p.initialize()
				p.send(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"run_js","arguments":{"code":"x"}` + c.meta + `}}`)
				synctest.Wait()
				for range c.commits {
					run.mu.Lock()
					run.signal()
					run.mu.Unlock()
					synctest.Wait()
				}
				run.end(events.StatusCompleted, nil)
				if m := p.receive(); string(m["id"]) != `"x"` {
					t.Errorf("got %s", m)
				}
				if err := p.close(); err != nil {
					t.Error(err)
				}
				if executions != c.executions || outputs != c.wantedOutput {
					t.Errorf("%d reads of the execution and %d of its output; want %d and %d", executions, outputs, c.executions, c.wantedOutput)
				}
			})
		})
	}
}

// TestStatelessWaits checks the documented 300 s and the text after them.
func TestStatelessWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		run := newRun("so far\n")
		s := run.stack().serve(t, mcp.Options{Stateless: true})
		cs := connect(t, s)
		start := time.Now()
		res, err := cs.CallTool(t.Context(), &sdk.CallToolParams{Name: "run_js", Arguments: map[string]any{"code": "x"}})
		if err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d != 300*time.Second {
			t.Errorf("waited %v", d)
		}
		want := `{"output":"so far\n","result":null,"error":"Execution did not complete within polling timeout"}`
		if got := res.Content[0].(*sdk.TextContent).Text; got != want || res.IsError {
			t.Errorf("got %s (isError %t), want %s", got, res.IsError, want)
		}
		if err := cs.Close(); err != nil {
			t.Error(err)
		}
		select {
		case <-run.cancelled:
			t.Error("the run was cancelled; it must continue")
		default:
		}
	})
}

// TestStatelessProgress checks the progress notifications every 5 s to a client that
// asked for them.
func TestStatelessProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		run := newRun("")
		p := openPipe(t, run.stack().serve(t, mcp.Options{Stateless: true}), "")
		p.initialize()
		p.send(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"run_js","arguments":{"code":"x"},"_meta":{"progressToken":"t"}}}`)
		for _, want := range []string{"5", "10"} {
			m := p.receive()
			if string(m["method"]) != `"notifications/progress"` || string(m["params"]) != `{"progressToken":"t","message":"running","progress":`+want+`}` {
				t.Errorf("got %s %s", m["method"], m["params"])
			}
		}
		run.end(events.StatusCompleted, nil)
		if m := p.receive(); string(m["id"]) != `"x"` {
			t.Errorf("got %s", m)
		}
		if err := p.close(); err != nil {
			t.Error(err)
		}
	})
}

// TestStatelessCancelledCall checks that a client that cancels its call cancels the run.
func TestStatelessCancelledCall(t *testing.T) {
	t.Parallel()
	run := newRun("")
	book := run.stack()
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	execution := book.execution
	book.execution = func(id string) (projections.ExecutionDetail, error) {
		giveUp() // the call waits for its run
		return execution(id)
	}
	cs := connect(t, book.serve(t, mcp.Options{Stateless: true}))
	if _, err := cs.CallTool(ctx, &sdk.CallToolParams{Name: "run_js", Arguments: map[string]any{"code": "x"}}); !errors.Is(err, context.Canceled) {
		t.Fatalf("call: %v", err)
	}
	if id := <-run.cancelled; id != "one" {
		t.Errorf("cancelled %q", id)
	}
	if err := cs.Close(); err != nil {
		t.Error(err)
	}
}

// TestErrorTable checks the message for each kind of error, and that internal errors are
// not shown.
func TestErrorTable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err       error
		say, hide string
	}{
		{ledger.Invalid("code", "code must be valid UTF-8"), "code must be valid UTF-8", ""},
		{&ledger.Error{Code: ledger.CodeTooLarge, Message: "code is longer than 16 MiB"}, "longer than 16 MiB", ""},
		{&ledger.Error{Code: ledger.CodeConflict, Message: "made by engine A, not B"}, "engine A", ""},
		{&ledger.Error{Code: ledger.CodeGone, Message: "heap abc was collected on request"}, "collected", ""},
		{&ledger.Error{Code: ledger.CodeExhausted, Message: "too many runs"}, "wait before trying again", ""},
		{&ledger.Error{Code: ledger.CodeExhausted, Message: "too many turns: try again in 5 s", RetryAfter: 5 * time.Second}, "in 5 s", "over a quota"},
		{&ledger.Error{Code: ledger.CodeUnavailable, Message: "the ledger cannot be written"}, "try again in a few seconds", ""},
		{&ledger.Error{Code: ledger.CodeInternal, Message: "secret path /x"}, "internal error", "secret"},
		{events.ErrDamaged, "daybook verify", ""},
		{errors.New("dial tcp 10.0.0.1: secret"), "internal error", "secret"},
		{&ledger.Error{Code: "a code of tomorrow", Message: "secret"}, "internal error", "secret"},
	} {
		book := &fakeStack{submit: func(context.Context, ledger.Submission) (ledger.Receipt, error) { return ledger.Receipt{}, c.err }}
		p := openPipe(t, book.serve(t, mcp.Options{}), "")
		p.initialize()
		r := p.tool("run_js", `{"code":"1"}`)
		checkSentence(t, c.err.Error(), r)
		if text := r.Content[0].Text; !strings.Contains(text, c.say) || c.hide != "" && strings.Contains(text, c.hide) {
			t.Errorf("%v: the message is %q", c.err, text)
		}
	}
}

// TestPanicIsContained checks that the connection and the process survive a panic in a
// call.
func TestPanicIsContained(t *testing.T) {
	t.Parallel()
	book := &fakeStack{submit: func(context.Context, ledger.Submission) (ledger.Receipt, error) { panic("secret") }}
	p := openPipe(t, book.serve(t, mcp.Options{}), "")
	p.initialize()
	r := p.tool("run_js", `{"code":"1"}`)
	checkSentence(t, "panic", r)
	if strings.Contains(r.Content[0].Text, "secret") {
		t.Errorf("the message is %q", r.Content[0].Text)
	}
	p.call("ping", `{}`)
}

// TestLaggingProjections checks that a recorded command is answered after a bounded
// wait, even if the projections lag.
func TestLaggingProjections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		book := &fakeStack{
			submit: func(context.Context, ledger.Submission) (ledger.Receipt, error) {
				return ledger.Receipt{ExecutionID: "one", Seq: 5}, nil
			},
			wait: func(ctx context.Context, seq uint64) error {
				if seq != 5 {
					t.Errorf("waits for %d", seq)
				}
				<-ctx.Done()
				return ctx.Err()
			},
		}
		cs := connect(t, book.serve(t, mcp.Options{}))
		start := time.Now()
		res, err := cs.CallTool(t.Context(), &sdk.CallToolParams{Name: "run_js", Arguments: map[string]any{"code": "x"}})
		if err != nil || res.IsError {
			t.Fatalf("%v %v", res, err)
		}
		if d := time.Since(start); d != 4500*time.Millisecond {
			t.Errorf("waited %v", d)
		}
		if err := cs.Close(); err != nil {
			t.Error(err)
		}
	})
}
