package acp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"daybook/events"
	"daybook/internal/lines"
	"daybook/internal/link"
)

// ErrDetached is the cause of a context whose client asks another server next:
// its prompts are neither cancelled nor answered.
var ErrDetached = errors.New("another server serves the client next")

// errClosed is returned by Serve when the server ended before its client did.
var errClosed = errors.New("the server has ended")

// MaxMessageBytes bounds one message of a client, without its line end.
const MaxMessageBytes = maxLine

const (
	// eofGrace is how long what a client asked may take once it has closed its end:
	// long enough for what was piped in to be answered, shorter than clients wait
	// before they kill.
	eofGrace = 1500 * time.Millisecond
	// endGrace is how long a cancelled prompt may take to say so: its runner has 2 s.
	endGrace = 10 * time.Second
	// maxPending bounds the requests of a client that are not answered.
	maxPending = 1024
)

// client is one connection. It stands between the streams and the SDK: requests
// that change sessions reach it one after another, prompts of one session one at
// a time, and cancellations at once.
type client struct {
	server *Server
	rpc    *sdk.Connection

	writing  sync.Mutex
	out      io.Writer
	writeErr error         // the first
	broken   chan struct{} // closed with it

	mu      sync.Mutex
	pending map[string]*call // by idKey: read and not answered
	// answering counts those whose answer is being written.
	answering int
	idle      chan struct{}    // closed when nothing is left to answer; nil if nobody waits
	turns     map[string]*turn // by session
	resumed   map[string]bool  // sessions that were resumed without being counted

	// restoring is true while the resume being handled is a line of the link.
	restoring atomic.Bool

	// after is what the request being handled wants done once it is answered. Only
	// one of those that use it is handled at a time.
	after func()

	detached chan struct{} // closed when the client asks another server next
	// forget leaves a session to another client, at this owner and the next ones.
	forget func(session string)

	greeted atomic.Bool
	name    atomic.Value // of string: what the client calls itself
}

// call is a request that is being handled.
type call struct {
	// session has the turn that ends with the answer; empty for none.
	session  string
	answered chan struct{}
}

// turn is a prompt that is being handled.
type turn struct {
	ctx    context.Context //nolint:containedctx // the turn's own: cancelled by a notification
	cancel context.CancelFunc
	// delivery identifies the prompt where a link may bring it to several servers.
	delivery link.Delivery
	// finished is closed when nothing more is done about the prompt.
	finished chan struct{}
	once     sync.Once
}

// Serve serves one client over a pair of streams, one JSON-RPC message a line,
// until in ends, ctx is done or the server is closed. What runs then is
// cancelled, unless the cause of ctx is ErrDetached. Nothing but messages is
// written to out.
//
// When Serve returns for another reason than the end of in, a Read of in may
// still be waiting; it takes at most one more message, which is lost, unless the
// caller closes in.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	if !s.enter() {
		return errClosed
	}
	defer s.clients.Done()
	c := &client{server: s, out: out, broken: make(chan struct{}), detached: make(chan struct{}), pending: map[string]*call{}, turns: map[string]*turn{}}
	c.forget = func(session string) { link.Forget(ctx, session) }
	c.name.Store("")
	ended := make(chan struct{})
	defer close(ended)
	lines := readLines(in, ended)
	fromClient, toSDK := io.Pipe()
	c.rpc = sdk.NewConnection(c.handle, c, fromClient)
	c.rpc.SetLogger(s.opts.Logger)
	err := c.relay(ctx, lines, toSDK)
	if errors.Is(context.Cause(ctx), ErrDetached) {
		close(c.detached)
	}
	c.finish()
	_ = toSDK.Close()
	<-c.rpc.Done()
	s.leave(c)
	return err
}

// line is one of a client's, or why there are no more.
type line struct {
	text []byte
	err  error
}

func readLines(in io.Reader, ended <-chan struct{}) <-chan line {
	out := make(chan line)
	go func() {
		defer close(out)
		r := bufio.NewReaderSize(in, 64<<10)
		for {
			raw, err := lines.Read(r, maxLine+1)
			text := bytes.TrimSpace(raw)
			if len(text) > 0 || errors.Is(err, lines.ErrTooLong) {
				select {
				case out <- line{text: text}:
				case <-ended:
					return
				}
			}
			if err != nil && !errors.Is(err, lines.ErrTooLong) {
				if !errors.Is(err, io.EOF) {
					select {
					case out <- line{err: fmt.Errorf("read from the client: %w", err)}:
					case <-ended:
					}
				}
				return
			}
		}
	}()
	return out
}

// relay takes lines in until there is a reason not to.
func (c *client) relay(ctx context.Context, lines <-chan line, to io.Writer) error {
	for {
		select {
		case l, ok := <-lines:
			switch {
			case !ok:
				c.answerTheRest(ctx)
				return c.failure()
			case l.err != nil:
				return l.err
			}
			if err := c.receive(ctx, l.text, to); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		case <-c.server.life.Done():
			return errClosed
		case <-c.broken:
			return c.failure()
		}
	}
}

// receive deals with a message: passes it on to the SDK, or answers it.
func (c *client) receive(ctx context.Context, text []byte, to io.Writer) error {
	if text == nil {
		return c.refuse(nil, problem{codeInvalidRequest, fmt.Sprintf("the message is longer than %d bytes", maxLine)})
	}
	e, bad := decodeLine(text)
	switch {
	case bad != nil:
		return c.refuse(nil, *bad)
	case e.Method == nil:
		return c.pass(to, text) // an answer, which the SDK knows whose it is
	case e.ID != nil:
		return c.request(ctx, e, text, to)
	case *e.Method == sdk.AgentMethodSessionCancel:
		c.cancelTurn(e.session())
	case *e.Method == "$/cancel_request":
		return c.pass(to, text)
	}
	return nil // a notification that is none of ours
}

func (c *client) pass(to io.Writer, text []byte) error {
	if _, err := to.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("pass a message on: %w", err)
	}
	return nil
}

// inOrder tells which requests are answered before the next message is read.
// None of them waits for the client.
func inOrder(method string) bool {
	switch method {
	case sdk.AgentMethodInitialize, sdk.AgentMethodSessionNew, sdk.AgentMethodSessionLoad, sdk.AgentMethodSessionResume,
		sdk.AgentMethodSessionFork, sdk.AgentMethodSessionClose, sdk.AgentMethodSessionDelete,
		sdk.AgentMethodSessionSetMode, sdk.AgentMethodSessionSetConfigOption:
		return true
	}
	return false
}

func (c *client) request(ctx context.Context, e envelope, text []byte, to io.Writer) error {
	key, ok := idKey(e.ID)
	if !ok {
		return c.refuse(nil, problem{codeInvalidRequest, "id must be a string or a number"})
	}
	if *e.Method == sdk.AgentMethodSessionResume {
		c.restoring.Store(link.IsRestoring(ctx))
	}
	r := &call{answered: make(chan struct{})}
	delivery, _ := link.NextDelivery(ctx, e.ID)
	if bad := c.begin(key, r, *e.Method, e, delivery); bad != nil {
		return c.refuse(e.ID, *bad)
	}
	if err := c.pass(to, text); err != nil || !inOrder(*e.Method) {
		return err
	}
	select {
	case <-r.answered:
	case <-ctx.Done():
		return nil
	case <-c.server.life.Done():
		return errClosed
	case <-c.broken:
		return c.failure()
	}
	if after := c.after; after != nil {
		c.after = nil
		after()
	}
	return nil
}

// begin notes a request, and the turn that it asks for.
func (c *client) begin(key string, r *call, method string, e envelope, delivery link.Delivery) *problem {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending[key] != nil {
		return &problem{codeInvalidRequest, "a request with this id is still being handled; use each id once"}
	}
	if len(c.pending) >= maxPending {
		return &problem{codeInvalidRequest, fmt.Sprintf("%d requests are not answered; wait for an answer before the next request", maxPending)}
	}
	if method == sdk.AgentMethodSessionPrompt {
		id := e.session()
		if c.turns[id] != nil {
			return &problem{codeInvalidRequest, "a prompt is running in this session; wait for its answer, or send session/cancel first"}
		}
		t := &turn{delivery: delivery, finished: make(chan struct{})}
		t.ctx, t.cancel = context.WithCancel(c.server.life)
		c.turns[id], r.session = t, id
	}
	c.pending[key] = r
	return nil
}

// turnOf is the prompt that is being handled in a session, or nil.
func (c *client) turnOf(session string) *turn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.turns[session]
}

func (c *client) cancelTurn(session string) {
	if t := c.turnOf(session); t != nil {
		t.cancel()
	}
}

// stopTurn cancels the prompt of a session and waits until nothing more is done
// about it, or for long enough.
func (c *client) stopTurn(session string) {
	t := c.turnOf(session)
	if t == nil {
		return
	}
	t.cancel()
	timer := time.NewTimer(endGrace)
	defer timer.Stop()
	select {
	case <-t.finished:
	case <-timer.C:
	}
}

func (t *turn) finish() { t.once.Do(func() { t.cancel(); close(t.finished) }) }

// Write sends lines of the SDK, each of which is one message.
func (c *client) Write(text []byte) (int, error) {
	key, answer := answerTo(text)
	if !answer {
		return c.write(text)
	}
	// The client may go on as soon as it reads this.
	r := c.release(key)
	n, err := c.write(text)
	c.settled(r)
	return n, err
}

func (c *client) write(text []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.writeErr != nil {
		return 0, c.writeErr
	}
	n, err := c.out.Write(text)
	if err != nil {
		c.writeErr = fmt.Errorf("write to the client: %w", err)
		close(c.broken)
	}
	return n, err
}

// release ends the turn of a request that is about to be answered, and gives its
// id back. It returns nil for a request that is not known.
func (c *client) release(key string) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.pending[key]
	if r == nil {
		return nil
	}
	delete(c.pending, key)
	c.answering++
	if t := c.turns[r.session]; t != nil && r.session != "" {
		t.finish()
		delete(c.turns, r.session)
	}
	return r
}

// settled notes that a request was answered.
func (c *client) settled(r *call) {
	if r == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	close(r.answered)
	c.answering--
	if c.settledAll() && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

// settledAll reports whether nothing is left to answer.
func (c *client) settledAll() bool { return len(c.pending) == 0 && c.answering == 0 }

// refuse answers a message without the SDK. A message whose id is not known is
// answered with null.
func (c *client) refuse(id json.RawMessage, p problem) error {
	if id == nil {
		id = json.RawMessage("null")
	}
	text, err := json.Marshal(struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   problem         `json:"error"`
	}{"2.0", id, p})
	if err != nil {
		return err
	}
	_, err = c.write(append(text, '\n'))
	return err
}

// failure is why not everything could be written.
func (c *client) failure() error {
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.writeErr
}

// quiet is closed when no request is being handled.
func (c *client) quiet() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle == nil {
		c.idle = make(chan struct{})
		if c.settledAll() {
			idle := c.idle
			c.idle = nil
			close(idle)
			return idle
		}
	}
	return c.idle
}

// answerTheRest gives what was asked before the end of in its time.
func (c *client) answerTheRest(ctx context.Context) {
	timer := time.NewTimer(eofGrace)
	defer timer.Stop()
	select {
	case <-c.quiet():
	case <-timer.C:
	case <-ctx.Done():
	case <-c.server.life.Done():
	case <-c.broken:
	}
}

// finish cancels what still runs, unless another server serves the client next,
// and waits until nothing is done about it here.
func (c *client) finish() {
	select {
	case <-c.detached:
	default:
		c.mu.Lock()
		for _, t := range c.turns {
			t.cancel()
		}
		c.mu.Unlock()
	}
	timer := time.NewTimer(endGrace)
	defer timer.Stop()
	select {
	case <-c.quiet():
	case <-timer.C:
	}
}

func (c *client) isDetached() bool {
	select {
	case <-c.detached:
		return true
	default:
		return false
	}
}

// actor is who is behind what the client does.
func (c *client) actor() events.Actor {
	name, _ := c.name.Load().(string)
	return events.Actor{Principal: "anonymous", Transport: "acp", Client: name}
}

// tell sends an update of a session.
func (c *client) tell(ctx context.Context, session string, u sdk.SessionUpdate) error {
	return c.rpc.SendNotification(ctx, sdk.ClientMethodSessionUpdate, sdk.SessionNotification{SessionId: sdk.SessionId(session), Update: u})
}

// tellAnnounced sends an update of a session that belongs to no prompt.
func (c *client) tellAnnounced(ctx context.Context, session string, u sdk.SessionUpdate) error {
	return c.rpc.SendNotification(ctx, sdk.ClientMethodSessionUpdate, sdk.SessionNotification{
		Meta: map[string]any{link.Announced: true}, SessionId: sdk.SessionId(session), Update: u,
	})
}
