package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"daybook/ledger"
	"daybook/mcp"
	"daybook/projections"
)

const handshake = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
`

// TestStdioAnswersPipedRequests ends the input right after the requests, as a shell
// pipe does: they are answered nevertheless.
func TestStdioAnswersPipedRequests(t *testing.T) {
	t.Parallel()
	book := &fakeStack{submit: func(_ context.Context, s ledger.Submission) (ledger.Receipt, error) {
		return ledger.Receipt{ExecutionID: "run of " + s.Code, Seq: 7}, nil
	}}
	s := book.serve(t, mcp.Options{})
	var out bytes.Buffer
	in := handshake + `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run_js","arguments":{"code":"1+1"}}}` // no line end
	if err := s.ServeStdio(t.Context(), strings.NewReader(in), &out, ""); err != nil {
		t.Fatalf("ServeStdio: %v", err)
	}
	answers := messages(t, out.Bytes())
	if len(answers) != 2 || !strings.Contains(string(answers[1]["result"]), "run of 1+1") {
		t.Errorf("got %s", out.Bytes())
	}
}

// messages checks that every line is a JSON-RPC message.
func messages(t testing.TB, out []byte) []map[string]json.RawMessage {
	t.Helper()
	var list []map[string]json.RawMessage
	for line := range bytes.Lines(out) {
		var m map[string]json.RawMessage
		if err := json.Unmarshal(line, &m); err != nil || string(m["jsonrpc"]) != `"2.0"` {
			t.Fatalf("not a message: %q", line)
		}
		list = append(list, m)
	}
	return list
}

// TestStdioSurvivesGarbage sends lines that are not messages between valid ones.
func TestStdioSurvivesGarbage(t *testing.T) {
	t.Parallel()
	p := openPipe(t, new(fakeStack).serve(t, mcp.Options{}), "")
	p.initialize()
	for _, line := range []string{
		`hello`, `{"jsonrpc":"2.0","id":9,"method":`, `5`, `null`, `{}`, `{"jsonrpc":"1.0","id":1,"method":"ping"}`,
		`[]`, `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, "\x00\xff", `{"jsonrpc":"2.0","id":{},"method":"ping"}`,
		strings.Repeat("[", 1<<16), strings.Repeat(" ", 1<<17) + "x",
	} {
		p.send(line)
		m := p.receive()
		var e struct {
			Code    int
			Message string
		}
		if err := json.Unmarshal(m["error"], &e); err != nil || e.Code != -32700 && e.Code != -32600 || string(m["id"]) != "null" {
			t.Errorf("%.40q: answered %s", line, m)
		}
		if goDetail.MatchString(e.Message) {
			t.Errorf("%.40q: shows internal details: %q", line, e.Message)
		}
	}
	for _, blank := range []string{"", "  ", "\r"} {
		p.send(blank)
	}
	p.send(strings.Repeat("x", 50<<20)) // beyond the limit
	if m := p.receive(); !strings.Contains(string(m["error"]), "larger than 49 MiB") {
		t.Errorf("a line that is too long: answered %s", m)
	}
	p.call("ping", `{}`)
	if err := p.close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// TestStdioUnknownTool checks that unknown tools and methods are protocol errors, not
// results.
func TestStdioUnknownTool(t *testing.T) {
	t.Parallel()
	p := openPipe(t, new(fakeStack).serve(t, mcp.Options{}), "")
	p.initialize()
	for line, code := range map[string]string{
		`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"nonsense"}}`:                     `"code":-32602`,
		`{"jsonrpc":"2.0","id":"a","method":"nonsense"}`:                                                    `"code":-32601`,
		`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"list_sessions","_meta":{"":1}}}`: "",
	} {
		p.send(line)
		m := p.receive()
		if code != "" && !strings.Contains(string(m["error"]), code) || code == "" && m["result"] == nil || string(m["id"]) != `"a"` {
			t.Errorf("%s: answered %s", line, m)
		}
	}
}

// TestStdioEndsWhileRunning ends the input, the context or the server while a stateless
// call waits: the connection ends, and the run is not cancelled.
func TestStdioEndsWhileRunning(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"input", "context", "server"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			waiting := make(chan struct{})
			never := make(chan struct{})
			book := &fakeStack{
				submit: func(context.Context, ledger.Submission) (ledger.Receipt, error) {
					return ledger.Receipt{ExecutionID: "one", Seq: 1}, nil
				},
				execution: func(string) (projections.ExecutionDetail, error) {
					return projections.ExecutionDetail{Execution: projections.Execution{Status: "running"}}, nil
				},
				changed: func() <-chan struct{} { close(waiting); return never },
				cancel: func(context.Context, string) (uint64, error) {
					t.Error("the run was cancelled")
					return 0, nil
				},
			}
			s := book.serve(t, mcp.Options{Stateless: true})
			in, client := io.Pipe()
			defer in.Close()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var out bytes.Buffer
			done := make(chan error, 1)
			go func() { done <- s.ServeStdio(ctx, in, &out, "") }()
			_, err := io.WriteString(client, handshake+`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run_js","arguments":{"code":"1"}}}`+"\n")
			if err != nil {
				t.Fatal(err)
			}
			<-waiting
			var want error
			switch how {
			case "input":
				client.Close()
			case "context":
				stop()
				want = context.Canceled
			case "server":
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if err := <-done; !errors.Is(err, want) {
				t.Errorf("ServeStdio: %v, want %v", err, want)
			}
			messages(t, out.Bytes())
		})
	}
}

// failingWriter fails every write.
type failingWriter struct{}

func (failingWriter) Read([]byte) (int, error)  { return 0, errBroken }
func (failingWriter) Write([]byte) (int, error) { return 0, errBroken }

var errBroken = errors.New("the stream broke")

// TestStdioBrokenStreams checks that ServeStdio returns errors of its streams.
func TestStdioBrokenStreams(t *testing.T) {
	t.Parallel()
	s := new(fakeStack).serve(t, mcp.Options{})
	if err := s.ServeStdio(t.Context(), failingWriter{}, io.Discard, ""); !errors.Is(err, errBroken) {
		t.Errorf("broken input: %v", err)
	}
	if err := s.ServeStdio(t.Context(), strings.NewReader(handshake), failingWriter{}, ""); !errors.Is(err, errBroken) {
		t.Errorf("broken output: %v", err)
	}
}

// TestStdioSessionName checks that an invalid name is refused before the first message.
func TestStdioSessionName(t *testing.T) {
	t.Parallel()
	s := new(fakeStack).serve(t, mcp.Options{})
	for _, name := range []string{" x", "a\nb", strings.Repeat("x", 129), "\xff"} {
		if err := s.ServeStdio(t.Context(), strings.NewReader(handshake), io.Discard, name); ledger.CodeOf(err) != ledger.CodeInvalid {
			t.Errorf("session %q: %v", name, err)
		}
	}
	bad := new(fakeStack).serve(t, mcp.Options{SessionID: "a\tb"})
	if err := bad.ServeStdio(t.Context(), strings.NewReader(handshake), io.Discard, ""); ledger.CodeOf(err) != ledger.CodeInvalid {
		t.Errorf("Options.SessionID: %v", err)
	}
}
