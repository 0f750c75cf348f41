package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"testing"

	"daybook/mcp"
)

// pipe sends and receives raw lines over the stdio transport.
type pipe struct {
	t    testing.TB
	in   *io.PipeWriter
	out  *bufio.Reader
	done chan error // the result of ServeStdio
	next int
}

func openPipe(t testing.TB, s *mcp.Server, session string) *pipe {
	t.Helper()
	serverIn, in := io.Pipe()
	out, serverOut := io.Pipe()
	p := &pipe{t: t, in: in, out: bufio.NewReaderSize(out, 1<<20), done: make(chan error, 1), next: 1}
	go func() {
		err := s.ServeStdio(context.Background(), serverIn, serverOut, session)
		serverOut.Close()
		serverIn.Close() // ends a read that is still blocked
		p.done <- err
	}()
	t.Cleanup(func() { in.Close(); out.Close() })
	return p
}

// initialize performs the handshake of revisions with sessions.
func (p *pipe) initialize() json.RawMessage {
	p.t.Helper()
	res := p.call("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"transcript","version":"1.0"}}`)
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return res
}

func (p *pipe) send(line string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.t.Fatalf("write to the server: %v", err)
	}
}

func (p *pipe) receive() map[string]json.RawMessage {
	p.t.Helper()
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		p.t.Fatalf("read from the server: %v (%q)", err, line)
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(line, &m); err != nil {
		p.t.Fatalf("the server wrote something else than a message: %q", line)
	}
	if string(m["jsonrpc"]) != `"2.0"` {
		p.t.Fatalf("the server wrote something else than a JSON-RPC message: %q", line)
	}
	return m
}

// call sends a request and returns the result, which must be the next message.
func (p *pipe) call(method, params string) json.RawMessage {
	p.t.Helper()
	id := p.next
	p.next++
	p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params))
	m := p.receive()
	if string(m["id"]) != fmt.Sprint(id) || m["result"] == nil {
		p.t.Fatalf("%s: want the result of request %d, got %s", method, id, m)
	}
	return m["result"]
}

// toolResult is the result of a tools/call on the wire.
type toolResult struct {
	Meta              map[string]json.RawMessage `json:"_meta"`
	Content           []struct{ Type, Text string }
	StructuredContent json.RawMessage
	IsError           bool
}

func (p *pipe) tool(name, arguments string) toolResult {
	p.t.Helper()
	raw := p.call("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, arguments))
	var r toolResult
	if err := json.Unmarshal(raw, &r); err != nil {
		p.t.Fatalf("%s: %v in %s", name, err, raw)
	}
	return r
}

// close ends the input and waits for the server to end the connection.
func (p *pipe) close() error {
	p.t.Helper()
	p.in.Close()
	return <-p.done
}
