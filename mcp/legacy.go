package mcp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/internal/resources/budget"
	"daybook/internal/web/access"
)

const (
	// maxPending and maxPendingBytes bound the unanswered messages of a connection, so that
	// a client that reads no answers cannot send more.
	maxPending      = maxCalls
	maxPendingBytes = 2 * maxMessageBytes
	// maxUnread bounds the messages that the SDK has not read. Beyond it the SDK blocks a
	// POST while the connection is open.
	maxUnread = 100
	// pendingCopies is the number of copies of an unanswered message in memory.
	pendingCopies = 2
)

// legacyHandler serves the HTTP+SSE transport. The SDK's own handler does not bound the
// messages of a connection whose client reads no answers.
type legacyHandler struct {
	server func(*http.Request) *sdk.Server
	budget *budget.Budget

	mu          sync.Mutex
	connections map[string]*legacyConn
}

// ServeHTTP opens a connection (GET), or accepts a message for one (POST).
func (l *legacyHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
		l.open(w, r)
	case http.MethodPost:
		l.post(w, r)
	default:
		w.Header().Set("Allow", "GET, POST")
		http.Error(w, "Method Not Allowed", http.StatusMethodNotAllowed)
	}
}

// open serves a connection until its client disconnects or its session ends.
func (l *legacyHandler) open(w http.ResponseWriter, r *http.Request) {
	name := rand.Text()
	endpoint, err := r.URL.Parse("?sessionid=" + name)
	server := l.server(r)
	if err != nil || server == nil {
		http.Error(w, "no server available", http.StatusBadRequest)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("Connection", "keep-alive")
	id, _ := access.From(r.Context())
	c := &legacyConn{
		transport: &sdk.SSEServerTransport{Endpoint: endpoint.RequestURI(), Response: w, MaxRequestBodyBytes: maxMessageBytes},
		budget:    l.budget, tenant: id.Tenant, calls: map[jsonrpc.ID][]*pendingMessage{},
	}
	l.mu.Lock()
	l.connections[name] = c
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.connections, name)
		l.mu.Unlock()
		c.releaseAll()
	}()
	ss, err := server.Connect(r.Context(), legacyTransport{c.transport, c}, nil)
	if err != nil {
		http.Error(w, "connection failed", http.StatusInternalServerError)
		return
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = ss.Wait() // the error says how it ended
	}()
	select {
	case <-r.Context().Done():
	case <-ended:
	}
	_ = ss.Close() // an error means that it has ended
	<-ended
}

// post accepts a message for a connection.
func (l *legacyHandler) post(w http.ResponseWriter, r *http.Request) {
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		http.Error(w, "Content-Type must be 'application/json'", http.StatusUnsupportedMediaType)
		return
	}
	name := r.URL.Query().Get("sessionid")
	if name == "" {
		http.Error(w, "sessionid must be provided", http.StatusBadRequest)
		return
	}
	l.mu.Lock()
	c := l.connections[name]
	l.mu.Unlock()
	if c == nil {
		http.Error(w, "session not found", http.StatusNotFound)
		return
	}
	c.post(w, r)
}

// legacyTransport is the SDK's transport, with limits for the connection.
type legacyTransport struct {
	*sdk.SSEServerTransport
	c *legacyConn
}

// Connect implements sdk.Transport.
func (t legacyTransport) Connect(ctx context.Context) (sdk.Connection, error) {
	inner, err := t.SSEServerTransport.Connect(ctx)
	if err != nil {
		return nil, err //nolint:wrapcheck // an error of the SDK
	}
	return &legacyStream{inner, t.c}, nil
}

// legacyConn counts the unanswered messages of a connection.
type legacyConn struct {
	transport *sdk.SSEServerTransport
	budget    *budget.Budget // nil means no limits
	tenant    string

	writing sync.Mutex // held while a message is written; Read waits for it

	mu     sync.Mutex
	count  int
	unread int
	bytes  int
	calls  map[jsonrpc.ID][]*pendingMessage
	others []*pendingMessage // messages without an answer, until the SDK reads them
	closed bool
}

// pendingMessage is the share of the limits that an unanswered message uses.
type pendingMessage struct {
	bytes   int
	account *budget.Account
}

// post passes a message to the SDK and counts it until it is answered.
func (c *legacyConn) post(w http.ResponseWriter, r *http.Request) {
	body, err := readBody(r)
	if err != nil || len(body) > maxMessageBytes {
		c.transport.ServeHTTP(w, r) // the SDK refuses it
		return
	}
	message, err := jsonrpc.DecodeMessage(body)
	if err != nil {
		c.transport.ServeHTTP(w, r)
		return
	}
	p := &pendingMessage{bytes: len(body)}
	if c.budget != nil {
		p.account = c.budget.Answer(c.tenant, 1)
		if err := budget.Retry(r.Context(), func() error { return p.account.TakeOnce(int64(len(body)) * pendingCopies) }); err != nil {
			p.release()
			w.Header().Set("Retry-After", fmt.Sprintf("%.0f", budget.RetryAfter.Seconds()))
			rpcError(w, http.StatusServiceUnavailable, jsonrpc.CodeInternalError, err.Error())
			return
		}
	}
	call := callID(message)
	switch err := c.add(call, p); {
	case errors.Is(err, errConnectionEnded):
		p.release()
		http.Error(w, "session not found", http.StatusNotFound)
		return
	case err != nil:
		p.release()
		w.Header().Set("Retry-After", "1")
		rpcError(w, http.StatusTooManyRequests, codeLimited, err.Error())
		return
	}
	status := &statusWriter{ResponseWriter: w}
	c.transport.ServeHTTP(status, r)
	if status.code != http.StatusAccepted {
		c.markRead()
		c.remove(call, p)
	}
}

// callID returns the id of a request; it is invalid for a message without an answer.
func callID(m jsonrpc.Message) jsonrpc.ID {
	if r, ok := m.(*jsonrpc.Request); ok {
		return r.ID
	}
	return jsonrpc.ID{}
}

var (
	errConnectionEnded   = errors.New("the connection has ended")
	errTooManyUnanswered = fmt.Errorf("the connection has too many unanswered messages (limits: %d messages, %d MiB, and %d messages that the server has not read); read the event stream, then try again", maxPending, maxPendingBytes>>20, maxUnread)
)

// add counts a message. It returns errConnectionEnded, or errTooManyUnanswered beyond
// the limits.
func (c *legacyConn) add(call jsonrpc.ID, p *pendingMessage) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return errConnectionEnded
	case c.count >= maxPending || c.unread >= maxUnread || c.count > 0 && c.bytes+p.bytes > maxPendingBytes:
		return errTooManyUnanswered
	}
	c.count++
	c.unread++
	c.bytes += p.bytes
	if call.IsValid() {
		c.calls[call] = append(c.calls[call], p)
	} else {
		c.others = append(c.others, p)
	}
	return nil
}

// markRead uncounts a message that the SDK has read.
func (c *legacyConn) markRead() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unread--
}

// remove uncounts a message with the id call, or one without an answer if call is invalid.
// If p is nil, it is the oldest such message.
func (c *legacyConn) remove(call jsonrpc.ID, p *pendingMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.others
	if call.IsValid() {
		list = c.calls[call]
	}
	at := 0
	for p != nil && at < len(list) && list[at] != p {
		at++
	}
	if at >= len(list) {
		return
	}
	list[at].release()
	c.count--
	c.bytes -= list[at].bytes
	list = append(list[:at:at], list[at+1:]...)
	switch {
	case !call.IsValid():
		c.others = list
	case len(list) == 0:
		delete(c.calls, call)
	default:
		c.calls[call] = list
	}
}

// releaseAll uncounts all messages when the connection ends.
func (c *legacyConn) releaseAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, list := range c.calls {
		for _, p := range list {
			p.release()
		}
	}
	for _, p := range c.others {
		p.release()
	}
	c.calls, c.others = map[jsonrpc.ID][]*pendingMessage{}, nil
}

func (p *pendingMessage) release() {
	if p.account != nil {
		p.account.Release()
	}
}

// legacyStream is the connection from which the SDK reads and to which it writes.
type legacyStream struct {
	sdk.Connection
	c *legacyConn
}

// Read returns the next message. It waits while a write is blocked by a client that does
// not read, because the SDK keeps unanswered messages without bound.
func (s *legacyStream) Read(ctx context.Context) (jsonrpc.Message, error) {
	s.c.writing.Lock()
	s.c.writing.Unlock() //nolint:staticcheck // locked only to wait
	m, err := s.Connection.Read(ctx)
	if err == nil {
		s.c.markRead()
		if !callID(m).IsValid() {
			s.c.remove(jsonrpc.ID{}, nil)
		}
	}
	return m, err //nolint:wrapcheck // an error of the SDK
}

// Write sends a message. It holds the memory of an answer until the client has read it.
func (s *legacyStream) Write(ctx context.Context, m jsonrpc.Message) error {
	answer, ok := m.(*jsonrpc.Response)
	if ok {
		defer s.c.remove(answer.ID, nil)
		if s.c.budget != nil {
			account := s.c.budget.Answer(s.c.tenant, pendingCopies)
			defer account.Release()
			if err := budget.Retry(ctx, func() error { return account.Take(int64(len(answer.Result))) }); err != nil {
				m = &jsonrpc.Response{ID: answer.ID, Error: &jsonrpc.Error{Code: codeLimited, Message: err.Error()}}
			}
		}
	}
	s.c.writing.Lock()
	defer s.c.writing.Unlock()
	return s.Connection.Write(ctx, m) //nolint:wrapcheck // an error of the SDK
}

// statusWriter stores the status of a response.
type statusWriter struct {
	http.ResponseWriter
	code int
}

// WriteHeader stores the status and sends it.
func (w *statusWriter) WriteHeader(code int) {
	w.code = code
	w.ResponseWriter.WriteHeader(code)
}

// Unwrap lets http.ResponseController reach the inner writer.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
