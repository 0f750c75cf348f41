package acp_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/coder/acp-go-sdk"
	"go.uber.org/goleak"

	"daybook/embed"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv("DAYBOOK_TEST_TOOLS"); mode != "" {
		serveTools(mode)
		return
	}
	if dir := os.Getenv("DAYBOOK_TEST_AGENT"); dir != "" {
		serveAgent(dir)
		return
	}
	goleak.VerifyTestMain(suite{m},
		// nats.go may start this goroutine for a stored object after the object is
		// stored; the goroutine then never ends.
		goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"))
}

// patience bounds the wait for an event that is expected soon.
const patience = 2 * time.Minute

// waitContext returns a context that is done after patience.
func waitContext(t testing.TB) context.Context {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	t.Cleanup(stop)
	return ctx
}

// start runs a Daybook on dir until the test ends, without syncs.
func start(t testing.TB, dir string) *embed.Daybook {
	t.Helper()
	book, err := embed.Start(waitContext(t), embed.Options{DataDir: dir, NATS: embed.NATSOptions{NoSync: true}, Runs: embed.RunOptions{DrainWait: -1}, Logger: testLog(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := book.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return book
}

func testLog(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(logTo{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

type logTo struct{ t testing.TB }

func (l logTo) Write(b []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

// message is a message from the agent.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *rpcError       `json:"error"`
	// line is the whole message.
	line []byte
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// peer is a client that checks every byte from the agent.
type peer struct {
	t     testing.TB
	in    io.WriteCloser
	done  chan struct{} // closed when the agent has ended
	ended error

	mu       sync.Mutex
	next     int
	messages []message
	grown    chan struct{} // closed and replaced with each message
	// answer answers requests of the agent; nil refuses them.
	answer func(m message) any
}

// connect connects a client to a Daybook.
func connect(t testing.TB, book *embed.Daybook) *peer {
	t.Helper()
	fromClient, toAgent := io.Pipe()
	fromAgent, toClient := io.Pipe()
	in, out := written(t, toAgent, fromAgent)
	p := newPeer(t, in, out)
	go func() {
		p.ended = book.ServeACP(context.Background(), fromClient, toClient)
		fromClient.Close()
		toClient.Close()
		close(p.done)
	}()
	t.Cleanup(p.leave)
	return p
}

func newPeer(t testing.TB, in io.WriteCloser, out io.Reader) *peer {
	p := &peer{t: t, in: in, done: make(chan struct{}), grown: make(chan struct{})}
	go p.read(out)
	return p
}

// leave closes the connection and waits until the agent ends.
func (p *peer) leave() {
	p.in.Close()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Error("the agent continues after its client has disconnected")
	}
}

func (p *peer) read(out io.Reader) {
	dec := json.NewDecoder(out)
	for {
		var raw json.RawMessage
		if dec.Decode(&raw) != nil {
			return
		}
		var m message
		if err := json.Unmarshal(raw, &m); err != nil {
			p.t.Errorf("the agent wrote %.200s: %v", raw, err)
			return
		}
		m.line = raw
		p.mu.Lock()
		p.messages = append(p.messages, m)
		close(p.grown)
		p.grown = make(chan struct{})
		answer := p.answer
		p.mu.Unlock()
		if m.Method != "" && m.ID != nil && answer != nil {
			go p.send(map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": answer(m)})
		}
	}
}

func (p *peer) send(m any) {
	b, err := json.Marshal(m)
	if err != nil {
		p.t.Error(err)
		return
	}
	p.line(string(b))
}

func (p *peer) line(s string) {
	if _, err := io.WriteString(p.in, s+"\n"); err != nil {
		p.t.Logf("write to the agent: %v", err)
	}
}

// ask sends a request and returns its id.
func (p *peer) ask(method string, params any) int {
	p.mu.Lock()
	p.next++
	id := p.next
	p.mu.Unlock()
	p.send(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
	return id
}

// await returns the first message that a test waits for.
func (p *peer) await(what string, want func(message) bool) message {
	p.t.Helper()
	limit := time.After(patience)
	for seen := 0; ; {
		p.mu.Lock()
		news, grown := p.messages[seen:], p.grown
		p.mu.Unlock()
		for _, m := range news {
			if want(m) {
				return m
			}
		}
		seen += len(news)
		select {
		case <-grown:
		case <-p.done:
			// The last message may not have been read.
			select {
			case <-grown:
			case <-time.After(20 * time.Second):
				p.t.Fatalf("the agent ended before %s: %v", what, p.ended)
			}
		case <-limit:
			p.t.Fatalf("%s did not arrive", what)
		}
	}
}

// awaitAnswer returns the answer to a request.
func (p *peer) awaitAnswer(id int) message {
	p.t.Helper()
	want, _ := json.Marshal(id)
	return p.await("the answer to request "+string(want), func(m message) bool { return m.Method == "" && string(m.ID) == string(want) })
}

// call sends a request and returns the answer.
func (p *peer) call(method string, params any) message {
	p.t.Helper()
	return p.awaitAnswer(p.ask(method, params))
}

// mustCall sends a request that must succeed, and decodes the result.
func (p *peer) mustCall(method string, params, result any) message {
	p.t.Helper()
	m := p.call(method, params)
	if m.Error != nil {
		p.t.Fatalf("%s: %d %s", method, m.Error.Code, m.Error.Message)
	}
	if result != nil {
		if err := json.Unmarshal(m.Result, result); err != nil {
			p.t.Fatal(err)
		}
	}
	return m
}

// mustFail sends a request that must fail with a code.
func (p *peer) mustFail(code int, method string, params any) {
	p.t.Helper()
	m := p.call(method, params)
	if m.Error == nil || m.Error.Code != code || m.Error.Message == "" {
		p.t.Errorf("%s with %v answers %s, want an error %d with a reason", method, params, m.line, code)
	}
}

type obj = map[string]any

func (p *peer) initialize() *peer {
	p.t.Helper()
	p.mustCall("initialize", obj{"protocolVersion": 1, "clientCapabilities": obj{}, "clientInfo": obj{"name": "test", "version": "1"}}, nil)
	return p
}

// newSession opens a session on the temporary directory.
func (p *peer) newSession(extra ...obj) string {
	p.t.Helper()
	params := obj{"cwd": os.TempDir(), "mcpServers": []any{}}
	for _, e := range extra {
		for k, v := range e {
			params[k] = v
		}
	}
	var r struct{ SessionID string }
	p.mustCall("session/new", params, &r)
	return r.SessionID
}

func text(s string) []any { return []any{obj{"type": "text", "text": s}} }

// prompt sends a prompt and returns its stop reason.
func (p *peer) prompt(session, code string) string {
	p.t.Helper()
	var r struct{ StopReason string }
	p.mustCall("session/prompt", obj{"sessionId": session, "prompt": text(code)}, &r)
	return r.StopReason
}

// mark returns the number of messages received so far.
func (p *peer) mark() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.messages)
}

// messagesSince returns the messages after a mark.
func (p *peer) messagesSince(mark int) []message {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.messages[mark:len(p.messages):len(p.messages)]
}

// updates returns the updates of a session among messages, without lists of commands,
// which are not part of the conversation.
func updates(t testing.TB, list []message, session string) []sdk.SessionUpdate {
	t.Helper()
	var out []sdk.SessionUpdate
	for _, m := range list {
		if m.Method != sdk.ClientMethodSessionUpdate {
			continue
		}
		var n sdk.SessionNotification
		if err := json.Unmarshal(m.Params, &n); err != nil {
			t.Fatalf("%s: %v", m.line, err)
		}
		if string(n.SessionId) == session && n.Update.AvailableCommandsUpdate == nil {
			out = append(out, n.Update)
		}
	}
	return out
}

// messageTexts joins the chunks of the agent's messages, by id, and returns them in order.
func messageTexts(list []sdk.SessionUpdate) []string {
	var texts []string
	last := ""
	for _, u := range list {
		c := u.AgentMessageChunk
		if c == nil || c.Content.Text == nil {
			continue
		}
		id := ""
		if c.MessageId != nil {
			id = *c.MessageId
		}
		if len(texts) > 0 && id == last {
			texts[len(texts)-1] += c.Content.Text.Text
		} else {
			texts = append(texts, c.Content.Text.Text)
		}
		last = id
	}
	return texts
}

// promptTexts runs a prompt and returns the agent's messages.
func (p *peer) promptTexts(session, code string) []string {
	p.t.Helper()
	mark := p.mark()
	p.prompt(session, code)
	return messageTexts(updates(p.t, p.messagesSince(mark), session))
}

// sharedDaybook is a Daybook that many tests share, each through its own connection.
var sharedDaybook struct {
	once sync.Once
	dir  string
	book *embed.Daybook
	err  error
}

// shared connects to the shared Daybook.
func shared(t testing.TB) *peer {
	t.Helper()
	sharedDaybook.once.Do(func() {
		if sharedDaybook.dir, sharedDaybook.err = os.MkdirTemp("", "daybook-acp"); sharedDaybook.err != nil {
			return
		}
		sharedDaybook.book, sharedDaybook.err = embed.Start(context.Background(), embed.Options{DataDir: sharedDaybook.dir, NATS: embed.NATSOptions{NoSync: true}, Runs: embed.RunOptions{DrainWait: -1}})
	})
	if sharedDaybook.err != nil {
		t.Fatal(sharedDaybook.err)
	}
	return connect(t, sharedDaybook.book).initialize()
}

// suite closes the shared Daybook before the check for leaks.
type suite struct{ *testing.M }

func (s suite) Run() int {
	code := s.M.Run()
	if sharedDaybook.book != nil {
		if err := sharedDaybook.book.Close(); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			code = 1
		}
	}
	if sharedDaybook.dir != "" {
		_ = os.RemoveAll(sharedDaybook.dir)
	}
	return code
}
