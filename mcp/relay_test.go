package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"daybook/ledger"
	"daybook/mcp"
)

// relayed is a client behind a Relay.
type relayed struct {
	*pipe
	relay *mcp.Relay
}

func openRelay(t *testing.T) *relayed {
	t.Helper()
	clientIn, in := io.Pipe()
	out, clientOut := io.Pipe()
	r := &relayed{relay: mcp.NewRelay(clientIn, clientOut), pipe: &pipe{t: t, in: in, out: bufio.NewReader(out), next: 1}}
	t.Cleanup(func() { in.Close(); out.Close(); r.relay.Close() })
	return r
}

// through connects the client to a server; stop takes that server away.
func (r *relayed) through(serve func(context.Context, io.Reader, io.Writer) error) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.relay.Serve(ctx, serve) }()
	return func() error {
		cancel()
		return <-done
	}
}

func stdioOf(s *mcp.Server) func(context.Context, io.Reader, io.Writer) error {
	return func(ctx context.Context, in io.Reader, out io.Writer) error { return s.ServeStdio(ctx, in, out, "") }
}

// scripted is a server that hears every line and says what it is told to.
type scripted struct {
	hears chan string
	says  chan string
}

func script() *scripted { return &scripted{make(chan string), make(chan string)} }

func (s *scripted) serve(ctx context.Context, in io.Reader, out io.Writer) error {
	go func() {
		defer close(s.hears)
		for lines := bufio.NewScanner(in); lines.Scan(); {
			s.hears <- lines.Text()
		}
	}()
	for {
		select {
		case line, ok := <-s.says:
			if !ok {
				return errors.New("gone")
			}
			if _, err := io.WriteString(out, line+"\n"); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// heard is the next message, by its method, params and id.
func (s *scripted) heard(t *testing.T) (method, params string, id json.RawMessage) {
	t.Helper()
	line, ok := <-s.hears
	if !ok {
		t.Fatal("the server hears no more")
	}
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return m.Method, string(m.Params), m.ID
}

// TestRelayCarriesOn: what a client said to one server holds for the next, what
// it still waits for is asked again, and what must not be done twice is
// answered.
func TestRelayCarriesOn(t *testing.T) {
	t.Parallel()
	r := openRelay(t)
	first := script()
	stop := r.through(first.serve)
	const hello = `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`
	answered := func(id int, method, params string) {
		t.Helper()
		r.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params))
		if got, _, _ := first.heard(t); got != method {
			t.Fatalf("the server hears %s, want %s", got, method)
		}
		first.says <- fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, id)
		if got := r.receive(); string(got["id"]) != fmt.Sprint(id) {
			t.Fatalf("%s is answered with %s", method, got)
		}
	}
	answered(1, "initialize", hello)
	r.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	first.heard(t)
	answered(2, "logging/setLevel", `{"level":"info"}`)
	answered(3, "resources/subscribe", `{"uri":"execution://a"}`)
	answered(4, "resources/subscribe", `{"uri":"execution://b"}`)
	answered(5, "resources/unsubscribe", `{"uri":"execution://a"}`)
	open := []string{ // in this order
		`{"jsonrpc":"2.0","id":"look","method":"tools/call","params":{"name":"get_execution","arguments":{"execution_id":"x"}}}`,
		`{"jsonrpc":"2.0","id":"run","method":"tools/call","params":{"name":"run_js","arguments":{"code":"1"}}}`,
		`{"jsonrpc":"2.0","id":"once","method":"tools/call","params":{"name":"run_js","arguments":{"code":"1","idempotency_key":"k"}}}`,
		`{"jsonrpc":"2.0","id":"stop","method":"tasks/cancel","params":{"taskId":"x"}}`,
		`{"jsonrpc":"2.0","id":"dropped","method":"tools/list"}`,
		`{"jsonrpc":"2.0","id":7.0,"method":"resources/read","params":{"uri":"execution://b"}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"dropped"}}`,
	}
	for _, line := range open {
		r.send(line)
		first.heard(t)
	}
	first.says <- `{"jsonrpc":"2.0","id":"q","method":"ping"}`
	if got := r.receive(); string(got["method"]) != `"ping"` {
		t.Fatalf("the server's question arrives as %s", got)
	}
	if err := stop(); !errors.Is(err, context.Canceled) {
		t.Fatalf("Serve: %v", err)
	}
	if r.relay.Left() {
		t.Fatal("the client is taken to have left")
	}

	second := script()
	stop = r.through(second.serve)
	defer stop()
	method, params, ours := second.heard(t)
	if method != "initialize" || params != hello {
		t.Fatalf("the next server hears %s %s first", method, params)
	}
	select {
	case line := <-second.hears:
		t.Fatalf("it hears %s before it has answered the handshake", line)
	default:
	}
	second.says <- fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, ours)
	for _, want := range []string{`notifications/initialized `, `logging/setLevel {"level":"info"}`, `resources/subscribe {"uri":"execution://b"}`} {
		method, params, id := second.heard(t)
		if got := method + " " + params; got != want {
			t.Errorf("then it hears %s, want %s", got, want)
		}
		if id != nil {
			second.says <- fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, id)
		}
	}
	// Answers to our own requests are not the client's; these are.
	lost := r.receive()
	var result struct {
		IsError bool
		Content []struct{ Text string }
	}
	if err := json.Unmarshal(lost["result"], &result); err != nil || string(lost["id"]) != `"run"` || !result.IsError || !strings.Contains(result.Content[0].Text, "list_executions") {
		t.Errorf("the run nobody knows of is answered with %s", lost)
	}
	if lost := r.receive(); string(lost["id"]) != `"stop"` || lost["error"] == nil {
		t.Errorf("the cancel nobody knows of is answered with %s", lost)
	}
	if news := r.receive(); string(news["method"]) != `"notifications/resources/updated"` || string(news["params"]) != `{"uri":"execution://b"}` {
		t.Errorf("of what is watched it hears %s", news)
	}
	for _, want := range []string{`"look"`, `"once"`, `7.0`} {
		if _, _, id := second.heard(t); string(id) != want {
			t.Errorf("request %s is repeated, want %s", id, want)
		}
	}
	r.send(`{"jsonrpc":"2.0","id":"q","result":{}}`) // for the first server
	r.send(`{"jsonrpc":"2.0","id":8,"method":"ping"}`)
	if method, _, id := second.heard(t); method != "ping" || string(id) != "8" {
		t.Errorf("the next it hears is %s %s", method, id)
	}
	second.says <- `{"jsonrpc":"2.0","id":7,"result":{"contents":[]}}`
	if got := r.receive(); string(got["id"]) != "7" {
		t.Errorf("got %s", got)
	}
}

// TestRelayBetweenServers changes real servers under a client that never
// notices.
func TestRelayBetweenServers(t *testing.T) {
	t.Parallel()
	r := openRelay(t)
	for n := range 3 {
		book := &fakeBook{submit: func(_ context.Context, s ledger.Submission) (ledger.Receipt, error) {
			return ledger.Receipt{ExecutionID: fmt.Sprintf("%s at %d", s.Code, n), Seq: 1}, nil
		}}
		stop := r.through(stdioOf(book.serve(t, mcp.Options{})))
		if n == 0 {
			r.initialize()
		}
		for _, code := range []string{"a", "b"} {
			var got struct {
				StructuredContent struct {
					ExecutionID string `json:"execution_id"`
				} `json:"structuredContent"`
			}
			raw := r.call("tools/call", fmt.Sprintf(`{"name":"run_js","arguments":{"code":%q}}`, code))
			if want := fmt.Sprintf("%s at %d", code, n); json.Unmarshal(raw, &got) != nil || got.StructuredContent.ExecutionID != want {
				t.Errorf("got %s, want %s", raw, want)
			}
		}
		if err := stop(); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	r.in.Close()
	if err := r.relay.Serve(t.Context(), stdioOf(new(fakeBook).serve(t, mcp.Options{}))); err != nil || !r.relay.Left() {
		t.Errorf("the client has left: %v, error %v", r.relay.Left(), err)
	}
}

// TestRelayRefused: a server that does not take up the conversation is an
// error, not a client left alone.
func TestRelayRefused(t *testing.T) {
	t.Parallel()
	r := openRelay(t)
	stop := r.through(stdioOf(new(fakeBook).serve(t, mcp.Options{})))
	r.initialize()
	r.call("ping", `{}`)
	_ = stop()
	other := script()
	done := make(chan error, 1)
	go func() { done <- r.relay.Serve(t.Context(), other.serve) }()
	_, _, id := other.heard(t)
	other.says <- fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"no such revision"}}`, id)
	if err := <-done; err == nil || !strings.Contains(err.Error(), "no such revision") {
		t.Errorf("Serve: %v", err)
	}
}

// FuzzRelay: whatever both sides say, every line of the server's that is no
// answer to us reaches the client as it is, and no line of the client's is lost
// or changed.
func FuzzRelay(f *testing.F) {
	f.Add(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	f.Add(`{"id":{},"method":"tools/call","params":[]}`, `{"id":[1,{"a":1e400}],"error":null}`)
	f.Add(`[1`, `"x"`)
	f.Add(`{"id":1e999,"method":"ping"}`, `{"method":"x","id":"\ud800"}`)
	f.Fuzz(func(t *testing.T, said, answered string) {
		if strings.ContainsAny(said+answered, "\r\n") || said == "" || answered == "" {
			t.Skip()
		}
		clientIn, in := io.Pipe()
		out, clientOut := io.Pipe()
		relay := mcp.NewRelay(clientIn, clientOut)
		defer relay.Close()
		defer in.Close()
		heard := make(chan string, 1)
		done := make(chan error, 1)
		go func() {
			done <- relay.Serve(t.Context(), func(_ context.Context, in io.Reader, out io.Writer) error {
				lines := bufio.NewReader(in)
				line, err := lines.ReadString('\n')
				if err != nil {
					return err
				}
				heard <- line
				_, err = io.WriteString(out, answered+"\n")
				return err
			})
		}()
		// A line that answers what no server asked is not passed on; this is.
		go func() { _, _ = io.WriteString(in, said+"\n"+`{"marker":true}`+"\n") }()
		line := <-heard
		if line != said+"\n" && line != `{"marker":true}`+"\n" {
			t.Errorf("%q is heard as %q", said, line)
		}
		back, err := bufio.NewReader(out).ReadString('\n')
		if err != nil || back != answered+"\n" {
			t.Errorf("%q arrives as %q, error %v", answered, back, err)
		}
		if err := <-done; err != nil && !slices.Contains([]string{"EOF"}, err.Error()) {
			t.Error(err)
		}
	})
}
