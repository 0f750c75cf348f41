package toolserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// server is one configured server with its connection, if there is one.
type server struct {
	config  Config
	opts    Options
	scrub   scrubber
	log     *slog.Logger
	lifeCtx context.Context
	tasks   *sync.WaitGroup

	mu           sync.Mutex // guards the fields below
	conn         *conn
	connecting   chan struct{} // closed when the current attempt is over
	attemptStart time.Time     // start of the last attempt
	closed       bool
	failures     int // consecutive failures
	retryAt      time.Time
	lastError    error // error of the last attempt
}

// conn is one connection.
type conn struct {
	session *sdk.ClientSession
	router  *answerRouter
	child   *child // nil for a server that is not a child process
	idle    func()
	end     context.CancelCauseFunc
	tools   atomic.Pointer[[]Tool]
	changes atomic.Int64 // notifications of a changed list that are not handled
	began   time.Time
}

func newServer(life context.Context, c Config, opts Options, tasks *sync.WaitGroup) *server {
	return &server{
		config: c, opts: opts, scrub: newScrubber(c), lifeCtx: life, tasks: tasks,
		log: opts.Logger.With("mcp_server", c.Name),
	}
}

func (s *server) allows(tenant string) bool {
	return s.config.Tenants == nil || slices.Contains(s.config.Tenants, tenant)
}

var errClosed = errors.New("it was closed")

// connection returns the connection, and connects if there is none. During the pause
// after a failure it returns the error of the last attempt. It waits until ctx is done. If
// patience is not 0, it waits at most that long, or retryWait if the server has failed
// before, both counted from the start of the attempt.
func (s *server) connection(ctx context.Context, patience time.Duration) (*conn, error) {
	for {
		s.mu.Lock()
		switch {
		case s.conn != nil:
			defer s.mu.Unlock()
			return s.conn, nil
		case s.closed:
			s.mu.Unlock()
			return nil, errClosed
		case s.connecting == nil && time.Now().Before(s.retryAt):
			defer s.mu.Unlock()
			return nil, s.lastError
		case s.connecting == nil:
			s.startAttempt()
		}
		over, waiting, stop := s.connecting, ctx, func() {}
		if patience > 0 {
			if s.failures > 0 {
				patience = min(patience, retryWait)
			}
			waiting, stop = context.WithDeadline(ctx, s.attemptStart.Add(patience))
		}
		s.mu.Unlock()
		select {
		case <-over:
			stop()
		case <-waiting.Done():
			stop()
			return nil, errors.New("it is not connected yet")
		}
	}
}

// retryWait is the maximum time that a list of tools waits for a server that has failed
// before, so that a server that hangs does not delay every run.
const retryWait = 250 * time.Millisecond

// wake starts an attempt to connect unless there is a connection or an attempt.
func (s *server) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil && s.connecting == nil && !s.closed {
		s.startAttempt()
	}
}

// startAttempt starts an attempt to connect. The caller must hold mu.
func (s *server) startAttempt() {
	done := make(chan struct{})
	s.connecting, s.attemptStart = done, time.Now()
	s.tasks.Go(func() {
		defer close(done)
		l, err := s.connect()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.connecting = nil
		switch {
		case s.closed:
			if l != nil {
				s.tasks.Go(l.close)
			}
		case err != nil:
			s.recordFailure(err)
		default:
			s.conn, s.lastError = l, nil
			s.log.Info("connected to an MCP server", "tools", len(*l.tools.Load()))
			s.tasks.Go(func() { s.watch(l) })
		}
	})
}

// recordFailure records a failure and the time of the next attempt. The caller must hold mu.
func (s *server) recordFailure(err error) {
	delay := s.opts.Backoff << min(s.failures, 5)
	s.failures++
	s.lastError, s.retryAt = err, time.Now().Add(delay)
	s.log.Warn("MCP server is not available", "error", err, "next_attempt_in", delay)
}

// minStableConnection is the duration after which a connection resets the count of
// consecutive failures.
const minStableConnection = time.Minute

// watch waits for the end of a connection.
func (s *server) watch(l *conn) {
	err := l.session.Wait()
	err = cmp.Or(l.child.problem(), err)
	s.mu.Lock()
	current := s.conn == l
	if current {
		s.conn = nil
		if time.Since(l.began) > minStableConnection {
			s.failures = 0
		}
		s.recordFailure(errors.New(s.explain("it ended the connection", err)))
	}
	s.mu.Unlock()
	if current {
		l.close()
	}
}

// connect opens a connection and reads the list of tools.
func (s *server) connect() (*conn, error) {
	// Some connections end with the context that they were opened with.
	ctx, end := context.WithCancelCause(s.lifeCtx)
	late := time.AfterFunc(s.opts.ConnectTimeout, func() { end(fmt.Errorf("no answer within %s", s.opts.ConnectTimeout)) })
	defer late.Stop()
	l := &conn{router: newAnswerRouter(), began: time.Now(), idle: func() {}, end: end}
	var transport sdk.Transport
	if s.config.transport() == Stdio {
		p, err := startChild(ctx, s.config, s.log, s.scrub, l.router)
		if err != nil {
			l.close()
			return nil, errors.New(s.explain("it does not start", err))
		}
		l.child, transport = p, p
	} else {
		var err error
		if transport, l.idle, err = dial(s.config, l.router); err != nil {
			l.idle = func() {}
			l.close()
			return nil, errors.New(s.explain("it cannot be reached", err))
		}
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "daybook", Version: s.opts.Version}, &sdk.ClientOptions{
		Capabilities: s.config.capabilities(),
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) {
			s.refreshAfterChange(l)
		},
	})
	if l.child != nil {
		client.AddSendingMiddleware(boundDiscovery(s.opts.ConnectTimeout / 3))
	}
	s.config.declareRoots(client)
	// If a child does not answer within the time limit, it is killed: the SDK would wait for
	// its output.
	stop := context.AfterFunc(ctx, func() {
		if l.child != nil {
			killChild(l.child.cmd)
		}
	})
	defer stop()
	session, err := client.Connect(ctx, transport, nil)
	if err != nil {
		err = cmp.Or(context.Cause(ctx), l.child.problem(), err)
		l.close()
		return nil, errors.New(s.explain("it does not connect", err))
	}
	l.session = session
	tools, err := s.list(ctx, session)
	if err != nil {
		err = cmp.Or(context.Cause(ctx), l.child.problem(), err)
		l.close()
		return nil, errors.New(s.explain("its tools cannot be listed", err))
	}
	l.tools.Store(&tools)
	return l, nil
}

// errNoDiscovery is the cause if server/discover is not answered in time.
var errNoDiscovery = errors.New("no answer to server/discover")

// boundDiscovery limits the time of the first request of a connection. Servers of
// revisions before 2026-07-28 do not know server/discover, and some ignore the request
// and send no error. If the request fails, the SDK sends initialize.
func boundDiscovery(wait time.Duration) sdk.Middleware {
	return func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if method != "server/discover" {
				return next(ctx, method, req)
			}
			ctx, stop := context.WithTimeoutCause(ctx, wait, errNoDiscovery)
			defer stop()
			return next(ctx, method, req)
		}
	}
}

// explain returns an error text without secrets.
func (s *server) explain(what string, err error) string {
	if err == nil || errors.Is(err, io.EOF) {
		return what
	}
	return what + ": " + s.scrub.scrubLine(err.Error())
}

// listRefreshInterval is the minimum time between two refreshes of a tool list.
const listRefreshInterval = time.Second

// refreshAfterChange refreshes the tool list after a notification of the server.
func (s *server) refreshAfterChange(l *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// While the server is being connected, the list is read anyway.
	if s.conn != l || l.changes.Add(1) > 1 {
		return
	}
	s.tasks.Go(func() {
		for {
			seen := l.changes.Load()
			s.refresh(l)
			if l.changes.CompareAndSwap(seen, 0) {
				return
			}
			t := time.NewTimer(listRefreshInterval)
			select {
			case <-t.C:
			case <-s.lifeCtx.Done():
				t.Stop()
				return
			}
		}
	})
}

// refresh reads the tool list again. If that fails, the old list is kept.
func (s *server) refresh(l *conn) {
	ctx, cancel := context.WithTimeout(s.lifeCtx, s.opts.ConnectTimeout)
	defer cancel()
	tools, err := s.list(ctx, l.session)
	if err != nil {
		s.log.Warn("cannot refresh the tools of an MCP server", "error", s.scrub.scrubLine(err.Error()))
		return
	}
	l.tools.Store(&tools)
}

// call calls a tool within the time limit of a call.
func (s *server) call(ctx context.Context, tenant, tool string, arguments []byte) Result {
	limit := s.config.Timeout
	if limit == 0 {
		limit = s.opts.CallTimeout
	}
	timed, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	l, err := s.connection(timed, 0)
	a := &answer{tenant: tenant, memory: s.opts.Memory}
	var r *sdk.CallToolResult
	if err == nil {
		r, err = l.session.CallTool(context.WithValue(timed, answerKey{}, a), &sdk.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments)})
		l.router.forget(a)
	}
	raw, held := a.take()
	var refused *jsonrpc.Error
	switch {
	case err == nil && raw != nil:
		result := s.result(raw)
		held.Shrink(int64(len(result.Text)))
		result.held = held
		return result
	}
	held.Release()
	switch {
	case err == nil:
		// The SDK read a message that divert did not recognize, such as one of several
		// lines.
		if raw, err = json.Marshal(r); err != nil {
			return Result{Outcome: Failed, Text: []byte("the server's answer cannot be written as JSON")}
		}
		return s.result(raw)
	case ctx.Err() != nil:
		return Result{Outcome: Cancelled, Text: []byte("the call was given up")}
	case timed.Err() != nil:
		return Result{Outcome: TimedOut, Text: fmt.Appendf(nil, "no answer within %s", limit)}
	case errors.As(err, &refused):
		return Result{Outcome: Failed, Text: []byte(s.scrub.scrubLine(refused.Message))}
	default:
		return Result{Outcome: Failed, Text: []byte("the server is not available: " + s.scrub.scrubLine(err.Error()))}
	}
}

// result returns the result of a call for a script.
func (s *server) result(raw []byte) Result {
	r, err := decodeResult(raw)
	switch {
	case err != nil:
		return Result{Outcome: Failed, Text: []byte(err.Error())}
	case r.IsError:
		return Result{Outcome: Failed, Text: []byte(s.scrub.scrubText(failureMessage(r)))}
	}
	text, err := value(r, maxResultBytes)
	if err != nil {
		return Result{Outcome: Failed, Text: []byte(err.Error())}
	}
	return Result{Outcome: OK, Text: text}
}

func (s *server) status() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return "closed"
	case s.conn != nil:
		return fmt.Sprintf("connected, %d tools", len(*s.conn.tools.Load()))
	case s.connecting != nil:
		return "connecting"
	case s.lastError != nil:
		return "failed: " + s.lastError.Error()
	default:
		return "not started"
	}
}

// unavailable returns why the server cannot be called; empty if it can.
func (s *server) unavailable() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.conn != nil:
		return ""
	case s.lastError != nil:
		return s.lastError.Error()
	case s.closed:
		return errClosed.Error()
	default:
		return "it is not connected yet"
	}
}

func (s *server) close() {
	s.mu.Lock()
	l := s.conn
	s.closed, s.conn = true, nil
	s.mu.Unlock()
	if l != nil {
		l.close()
	}
}

// close ends the connection and waits until a child has exited.
func (l *conn) close() {
	defer l.end(errClosed)
	if l.session != nil {
		_ = l.session.Close() // the error of a connection that has ended is not needed
	}
	if l.child != nil {
		_ = l.child.Close()
	}
	l.idle()
}

// capabilities returns the client capabilities that are declared to a server: roots, if
// there are any, and no others.
func (c Config) capabilities() *sdk.ClientCapabilities {
	if len(c.Roots) == 0 {
		return &sdk.ClientCapabilities{}
	}
	return &sdk.ClientCapabilities{RootsV2: &sdk.RootCapabilities{}}
}

// declareRoots sets the roots that a server may ask for: with roots/list, or since
// revision 2026-07-28 in the result of a call.
func (c Config) declareRoots(client *sdk.Client) {
	if len(c.Roots) == 0 {
		return
	}
	list := make([]*sdk.Root, len(c.Roots))
	for i, dir := range c.Roots {
		list[i] = &sdk.Root{Name: filepath.Base(dir), URI: (&url.URL{Scheme: "file", Path: dir}).String()}
	}
	client.AddRoots(list...)
	// The SDK would answer in the order of the URIs. This answer keeps the order of Roots,
	// with the working directory first.
	client.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if method == "roots/list" {
				return &sdk.ListRootsResult{Roots: list}, nil
			}
			return next(ctx, method, req)
		}
	})
}
