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

// ErrDetached is the cause of a cancelled context if another server serves the client
// next. Serve then neither cancels nor answers the prompts of the client.
var ErrDetached = errors.New("another server serves the client next")

// errClosed is returned by Serve if the server is closed before the client disconnects.
var errClosed = errors.New("the server has ended")

// MaxMessageBytes is the largest size of a message of a client, without its line end.
const MaxMessageBytes = maxLine

const (
	// eofTimeout bounds the time for the pending requests of a client that has closed
	// its end. It is long enough to answer requests that were piped in, and shorter
	// than the time after which clients kill the process.
	eofTimeout = 1500 * time.Millisecond
	// endTimeout bounds the wait for the end of a cancelled prompt. The runner ends a
	// cancelled run within 2 s.
	endTimeout = 10 * time.Second
	// maxPending bounds the unanswered requests of a client.
	maxPending = 1024
)

// client is one connection. It passes messages between the streams and the SDK and
// decides their order: requests that change sessions are handled one after another,
// each session runs one prompt at a time, and cancellations take effect immediately.
type client struct {
	server *Server
	rpc    *sdk.Connection

	writing  sync.Mutex // guards out, writeErr and the closing of broken
	out      io.Writer
	writeErr error         // the first error of a write
	broken   chan struct{} // closed when writeErr is set

	mu      sync.Mutex                 // guards the fields up to resumed
	pending map[string]*pendingRequest // requests that were read and not answered, by idKey
	// answering counts the requests whose answer is being written.
	answering int
	idle      chan struct{}    // closed when no request is left; nil if there is no waiter
	turns     map[string]*turn // by session
	resumed   map[string]bool  // sessions that were resumed without being counted

	// restoring is true if the session/resume that was received last is a line of the
	// link, which restores its connection, and not of the client.
	restoring atomic.Bool

	// afterAnswer is called once the current request is answered. Only methods that
	// isSequential names set it; their requests are handled one after another.
	afterAnswer func()

	detached chan struct{} // closed when another server serves the client next
	// forget removes a session from the client's link, which then does not resume it
	// at the next owner.
	forget func(session string)

	initialized atomic.Bool
	name        atomic.Value // of string: the name and version of the client
}

// pendingRequest is an unanswered request.
type pendingRequest struct {
	// session is the session whose prompt ends with the answer; "" for none.
	session  string
	answered chan struct{}
}

// turn is the prompt that an ACP session is running. It is not the turn of a logical
// session, which is a number.
type turn struct {
	ctx    context.Context //nolint:containedctx // a notification cancels it
	cancel context.CancelFunc
	// delivery identifies a prompt that a link may send to several owners.
	delivery link.Delivery
	// finished is closed when the prompt is no longer handled.
	finished chan struct{}
	once     sync.Once
}

// Serve serves one client over a pair of streams until in ends, ctx is done or the
// server is closed. Each line is one JSON-RPC message, and Serve writes nothing else
// to out. Before it returns it cancels the running prompts, unless the cause of ctx is
// ErrDetached. It returns an error if a stream fails or the server is closed.
//
// If Serve returns before in ends, a Read of in may still be blocked. That Read may
// consume one more message, which is lost. The caller closes in to end it.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	if !s.addClient() {
		return errClosed
	}
	defer s.clients.Done()
	c := &client{server: s, out: out, broken: make(chan struct{}), detached: make(chan struct{}), pending: map[string]*pendingRequest{}, turns: map[string]*turn{}}
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
	c.shutDown()
	_ = toSDK.Close()
	<-c.rpc.Done()
	s.endSessionsOf(c)
	return err
}

// line is a line from the client, or the error that ended the stream. A nil text is a
// line that was too long.
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

// relay handles lines until the input ends, ctx is done, the server is closed or a
// write has failed.
func (c *client) relay(ctx context.Context, lines <-chan line, to io.Writer) error {
	for {
		select {
		case l, ok := <-lines:
			switch {
			case !ok:
				c.drainRequests(ctx)
				return c.writeError()
			case l.err != nil:
				return l.err
			}
			if err := c.receive(ctx, l.text, to); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		case <-c.server.ctx.Done():
			return errClosed
		case <-c.broken:
			return c.writeError()
		}
	}
}

// receive passes a message to the SDK, answers it, or cancels a turn.
func (c *client) receive(ctx context.Context, text []byte, to io.Writer) error {
	if text == nil {
		return c.refuse(nil, problem{codeInvalidRequest, fmt.Sprintf("the message is longer than %d bytes", maxLine)})
	}
	e, bad := decodeLine(text)
	switch {
	case bad != nil:
		return c.refuse(nil, *bad)
	case e.Method == nil:
		return c.forward(to, text) // an answer, which the SDK assigns to its request
	case e.ID != nil:
		return c.handleRequest(ctx, e, text, to)
	case *e.Method == sdk.AgentMethodSessionCancel:
		c.cancelTurn(e.session())
	case *e.Method == "$/cancel_request":
		return c.forward(to, text)
	}
	return nil // an unknown notification is ignored
}

func (c *client) forward(to io.Writer, text []byte) error {
	if _, err := to.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("pass a message to the SDK: %w", err)
	}
	return nil
}

// isSequential reports whether a request is answered before the next message is read. None
// of these requests waits for the client.
func isSequential(method string) bool {
	switch method {
	case sdk.AgentMethodInitialize, sdk.AgentMethodSessionNew, sdk.AgentMethodSessionLoad, sdk.AgentMethodSessionResume,
		sdk.AgentMethodSessionFork, sdk.AgentMethodSessionClose, sdk.AgentMethodSessionDelete,
		sdk.AgentMethodSessionSetMode, sdk.AgentMethodSessionSetConfigOption:
		return true
	}
	return false
}

func (c *client) handleRequest(ctx context.Context, e envelope, text []byte, to io.Writer) error {
	key, ok := idKey(e.ID)
	if !ok {
		return c.refuse(nil, problem{codeInvalidRequest, "id must be a string or a number"})
	}
	if *e.Method == sdk.AgentMethodSessionResume {
		c.restoring.Store(link.IsRestoring(ctx))
	}
	r := &pendingRequest{answered: make(chan struct{})}
	delivery, _ := link.NextDelivery(ctx, e.ID)
	if bad := c.registerRequest(key, r, *e.Method, e, delivery); bad != nil {
		return c.refuse(e.ID, *bad)
	}
	if err := c.forward(to, text); err != nil || !isSequential(*e.Method) {
		return err
	}
	select {
	case <-r.answered:
	case <-ctx.Done():
		return nil
	case <-c.server.ctx.Done():
		return errClosed
	case <-c.broken:
		return c.writeError()
	}
	if after := c.afterAnswer; after != nil {
		c.afterAnswer = nil
		after()
	}
	return nil
}

// registerRequest registers a request, and the turn of a prompt.
func (c *client) registerRequest(key string, r *pendingRequest, method string, e envelope, delivery link.Delivery) *problem {
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
		t.ctx, t.cancel = context.WithCancel(c.server.ctx)
		c.turns[id], r.session = t, id
	}
	c.pending[key] = r
	return nil
}

// turnOf returns the prompt that a session is running, or nil.
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

// stopTurn cancels the prompt of a session and waits for its end, for at most endTimeout.
func (c *client) stopTurn(session string) {
	t := c.turnOf(session)
	if t == nil {
		return
	}
	t.cancel()
	timer := time.NewTimer(endTimeout)
	defer timer.Stop()
	select {
	case <-t.finished:
	case <-timer.C:
	}
}

func (t *turn) finish() { t.once.Do(func() { t.cancel(); close(t.finished) }) }

// Write writes lines of the SDK, each of which is one message.
func (c *client) Write(text []byte) (int, error) {
	key, answer := answerTo(text)
	if !answer {
		return c.write(text)
	}
	// The turn ends before the write: the client may send its next prompt as soon as
	// it has read the answer.
	r := c.completeRequest(key)
	n, err := c.write(text)
	c.markAnswered(r)
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

// completeRequest removes a request that is about to be answered and ends its turn. The id
// can then be used again. It returns nil for an unknown request.
func (c *client) completeRequest(key string) *pendingRequest {
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

// markAnswered registers that the answer of a request was written.
func (c *client) markAnswered(r *pendingRequest) {
	if r == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	close(r.answered)
	c.answering--
	if c.isIdle() && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

// isIdle reports whether no request is left to answer. The caller must hold mu.
func (c *client) isIdle() bool { return len(c.pending) == 0 && c.answering == 0 }

// refuse answers a message with an error, without the SDK. The id of the answer is
// null if id is nil.
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

// writeError returns the error of the first failed write, or nil.
func (c *client) writeError() error {
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.writeErr
}

// whenIdle returns a channel that is closed when no request is left to answer.
func (c *client) whenIdle() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle == nil {
		c.idle = make(chan struct{})
		if c.isIdle() {
			idle := c.idle
			c.idle = nil
			close(idle)
			return idle
		}
	}
	return c.idle
}

// drainRequests waits until the requests before the end of the input are answered, for
// at most eofTimeout.
func (c *client) drainRequests(ctx context.Context) {
	timer := time.NewTimer(eofTimeout)
	defer timer.Stop()
	select {
	case <-c.whenIdle():
	case <-timer.C:
	case <-ctx.Done():
	case <-c.server.ctx.Done():
	case <-c.broken:
	}
}

// shutDown cancels the running prompts, unless another server serves the client next,
// and waits until no request is handled, for at most endTimeout.
func (c *client) shutDown() {
	select {
	case <-c.detached:
	default:
		c.mu.Lock()
		for _, t := range c.turns {
			t.cancel()
		}
		c.mu.Unlock()
	}
	timer := time.NewTimer(endTimeout)
	defer timer.Stop()
	select {
	case <-c.whenIdle():
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

// actor returns the recorded actor of the client's requests.
func (c *client) actor() events.Actor {
	name, _ := c.name.Load().(string)
	return events.Actor{Principal: "anonymous", Transport: "acp", Client: name}
}

// sendUpdate sends an update of a session to the client.
func (c *client) sendUpdate(ctx context.Context, session string, u sdk.SessionUpdate) error {
	return c.rpc.SendNotification(ctx, sdk.ClientMethodSessionUpdate, sdk.SessionNotification{SessionId: sdk.SessionId(session), Update: u})
}

// sendAnnounced sends an update of a session that belongs to no prompt, with the mark
// that the link looks for.
func (c *client) sendAnnounced(ctx context.Context, session string, u sdk.SessionUpdate) error {
	return c.rpc.SendNotification(ctx, sdk.ClientMethodSessionUpdate, sdk.SessionNotification{
		Meta: map[string]any{link.Announced: true}, SessionId: sdk.SessionId(session), Update: u,
	})
}
