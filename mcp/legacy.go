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
	// maxPending and maxPendingBytes bound the messages of a connection that are not
	// answered: a client that reads no answers cannot send more.
	maxPending      = maxCalls
	maxPendingBytes = 2 * maxMessageBytes
	// maxUnread bounds those of them that the SDK has not read. Beyond it the SDK lets a
	// POST wait for as long as the connection is open.
	maxUnread = 100
	// pendingCopies is how often the content of such a message is in memory.
	pendingCopies = 2
)

// legacyHandler serves the HTTP+SSE transport. The SDK's own handler puts no bound on the
// messages of a connection whose client reads no answers.
type legacyHandler struct {
	server func(*http.Request) *sdk.Server
	budget *budget.Budget

	mu          sync.Mutex
	connections map[string]*legacyConn
}

// ServeHTTP opens a connection (GET), or takes a message for one (POST).
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

// open serves a connection until its client leaves or its session ends.
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
		_ = ss.Wait() // however it ended
	}()
	select {
	case <-r.Context().Done():
	case <-ended:
	}
	_ = ss.Close() // an error says that it has ended
	<-ended
}

// post takes a message for a connection.
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

// legacyTransport is the SDK's transport with a bounded connection.
type legacyTransport struct {
	*sdk.SSEServerTransport
	c *legacyConn
}

// Connect implements sdk.Transport.
func (t legacyTransport) Connect(ctx context.Context) (sdk.Connection, error) {
	inner, err := t.SSEServerTransport.Connect(ctx)
	if err != nil {
		return nil, err //nolint:wrapcheck // the SDK's own
	}
	return &legacyStream{inner, t.c}, nil
}

// legacyConn counts the messages of a connection that are not answered.
type legacyConn struct {
	transport *sdk.SSEServerTransport
	budget    *budget.Budget // nil for none
	tenant    string

	writing sync.Mutex // the next message is taken once it is free

	mu     sync.Mutex
	count  int
	unread int
	bytes  int
	calls  map[jsonrpc.ID][]*pendingMessage
	others []*pendingMessage // without answers, until the SDK takes them
	closed bool
}

// pendingMessage is what a message takes.
type pendingMessage struct {
	bytes   int
	account *budget.Account
}

// post gives the SDK a message, which counts until it is answered.
func (c *legacyConn) post(w http.ResponseWriter, r *http.Request) {
	body, err := readBody(r)
	if err != nil || len(body) > maxMessageBytes {
		c.transport.ServeHTTP(w, r) // refuses it
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
		c.messageRead()
		c.remove(call, p)
	}
}

// callID is the id of a request; a message without answer has none.
func callID(m jsonrpc.Message) jsonrpc.ID {
	if r, ok := m.(*jsonrpc.Request); ok {
		return r.ID
	}
	return jsonrpc.ID{}
}

var (
	errConnectionEnded   = errors.New("the connection has ended")
	errTooManyUnanswered = fmt.Errorf("the connection has messages that are not answered, and at most %d of them with %d MiB are kept, and %d before their turn; read the event stream, then try again", maxPending, maxPendingBytes>>20, maxUnread)
)

// add counts a message. It returns errGone, or errTooManyUnanswered beyond the bounds.
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

// messageRead notes that a message waits for the SDK no more.
func (c *legacyConn) messageRead() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unread--
}

// remove counts a message no more: one of the calls with an id, or of the others.
// p is nil for the oldest.
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

// releaseAll ends the count with the connection.
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

// legacyStream is the connection that the SDK reads and writes.
type legacyStream struct {
	sdk.Connection
	c *legacyConn
}

// Read takes the next message. It waits while a client does not read what it is sent:
// the SDK keeps the messages that it has read without bound.
func (s *legacyStream) Read(ctx context.Context) (jsonrpc.Message, error) {
	s.c.writing.Lock()
	s.c.writing.Unlock() //nolint:staticcheck // only to wait
	m, err := s.Connection.Read(ctx)
	if err == nil {
		s.c.messageRead()
		if !callID(m).IsValid() {
			s.c.remove(jsonrpc.ID{}, nil)
		}
	}
	return m, err //nolint:wrapcheck // the SDK's own
}

// Write sends a message. The memory for an answer is taken until the client has read it.
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
	return s.Connection.Write(ctx, m) //nolint:wrapcheck // the SDK's own
}

// statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	code int
}

// WriteHeader remembers the status.
func (w *statusWriter) WriteHeader(code int) {
	w.code = code
	w.ResponseWriter.WriteHeader(code)
}

// Unwrap serves http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
