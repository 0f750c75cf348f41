package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/events"
	"daybook/internal/web"
	"daybook/internal/web/access"
	"daybook/ledger"
)

const (
	// sessionHeader is the session name under which runs are logged.
	sessionHeader = "X-Mcp-Session-Id"
	// versionHeader and transportSessionHeader are defined by the protocol.
	versionHeader          = "Mcp-Protocol-Version"
	transportSessionHeader = "Mcp-Session-Id"
	// addressHeader passes the client's address to the tools. It is always overwritten, so
	// that clients cannot set it.
	addressHeader = "Daybook-Remote-Address"

	// statelessRevision is the first revision without transport sessions.
	statelessRevision = "2026-07-28"

	// maxMessageBytes bounds one message of any transport.
	maxMessageBytes = ledger.MaxRequestBytes
)

// Handler returns the handler of Streamable HTTP. It serves all protocol revisions at
// one URL: requests with revision 2026-07-28 or later have no transport session, all
// others belong to one.
func (s *Server) Handler() http.Handler {
	get := s.serverFor
	withSessions := sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{
		SessionTimeout:             idleTimeout,
		EventStore:                 newSentEvents(s.transportSessions.forget),
		MaxRequestBodyBytes:        maxMessageBytes,
		DisableLocalhostProtection: true, // guard checks more hosts
	})
	without := sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{
		Stateless:                    true,
		PropagateRequestCancellation: true,
		MaxRequestBodyBytes:          maxMessageBytes,
		DisableLocalhostProtection:   true,
	})
	return s.guard(s.authenticate(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.Clone(r.Context()) // the caller's body stays unchanged
		defer s.tenants.accounts.withAccount(r)()
		if !checkBody(w, r) {
			return
		}
		if r.Header.Get(versionHeader) >= statelessRevision {
			switch {
			case isBatchRequest(r):
				refuseBatch(w, "revision "+statelessRevision)
			case !checkRequest(w, r) || !checkTaskRequest(w, r):
			default:
				release, ok := s.tenants.largeCode.takeCode(w, r)
				defer release()
				if !ok {
					return
				}
				if r, ok := s.open(w, r, nil); ok {
					rewriteStateless(r)
					without.ServeHTTP(w, r)
				}
			}
			return
		}
		if session := r.Header.Get(transportSessionHeader); session != "" {
			id, _ := access.From(r.Context())
			if s.transportSessions.isForeign(session, id) {
				// The SDK answers as it does for an unknown session.
				session = unknownSession
				r.Header.Set(transportSessionHeader, session)
			}
			done, ok := s.transportSessions.beginRequest(session, id)
			if !ok {
				http.Error(w, "session not found", http.StatusNotFound)
				return
			}
			defer done()
		}
		if isBatchRequest(r) {
			if s.admitBatch(w, r) {
				withSessions.ServeHTTP(w, r)
			}
			return
		}
		// A session keeps the name it was opened with. Later headers are not read.
		if r.Header.Get(transportSessionHeader) == "" && r.Method == http.MethodPost {
			place, ok := s.admitSession(w, r)
			if !ok {
				return
			}
			defer place.endRequest()
			if r, ok = s.open(w, r, place); !ok {
				return
			}
		}
		release, ok := s.tenants.largeCode.takeCode(w, r)
		defer release()
		if !ok {
			return
		}
		withSessions.ServeHTTP(w, rewriteRequest(r))
	})))
}

// unknownSession matches no session, because ids of sessions have no spaces.
const unknownSession = "no such session"

// serverFor returns the SDK server of the request's tenant, or nil without an identity.
func (s *Server) serverFor(r *http.Request) *sdk.Server {
	id, ok := access.From(r.Context())
	if !ok {
		return nil
	}
	return s.forTenant(id.Tenant).sdk
}

// SSEHandler returns the handler of the legacy HTTP+SSE transport. Mount it at one path:
// a GET opens a connection, and its first event names the address for POST.
func (s *Server) SSEHandler() http.Handler {
	sse := &legacyHandler{server: s.serverFor, budget: s.opts.Budget, connections: map[string]*legacyConn{}}
	owners := &bindings{owners: map[string]access.Identity{}}
	connected := owners.requireOwner(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isBatchRequest(r) {
			refuseBatch(w, "this transport")
			return
		}
		if r.Method == http.MethodGet {
			place, ok := s.admitSession(w, r)
			if !ok {
				return
			}
			defer place.close() // the connection ends with the request
			if r, ok = s.open(w, r, place); !ok {
				return
			}
		}
		sse.ServeHTTP(w, rewriteRequest(r))
	}))
	return s.guard(s.authenticate(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.Clone(r.Context()) // the caller's body stays unchanged
		// The answer to a POST is sent on another request, so the call has an account of its
		// own.
		r.Header.Del(accountHeader)
		if !checkBody(w, r) {
			return
		}
		if r.Method == http.MethodPost {
			if body, err := readBody(r); err == nil && !takeCopies(w, r, len(body), 0) {
				return
			}
		}
		connected.ServeHTTP(w, r)
	})))
}

// admitSession counts the session that a request opens. It reports false after it has
// refused the request.
func (s *Server) admitSession(w http.ResponseWriter, r *http.Request) (*transportSession, bool) {
	id, _ := access.From(r.Context())
	place, ending, err := s.transportSessions.admit(id, s.opts.Auth != nil)
	for _, ss := range ending {
		_ = ss.Close() // an error means that the session is closed
	}
	if full, ok := errors.AsType[*sessionLimitError](err); ok {
		w.Header().Set("Retry-After", "30")
		rpcError(w, full.status, jsonrpc.CodeInternalError, full.message)
		return nil, false
	}
	return place, true
}

// open prepares a request that opens a connection. place counts its session; nil if
// there is none. It reports false after it has refused the request.
func (s *Server) open(w http.ResponseWriter, r *http.Request, place *transportSession) (*http.Request, bool) {
	name, err := sessionName(r.Header)
	if err != nil {
		rpcError(w, http.StatusBadRequest, jsonrpc.CodeInvalidParams, "X-MCP-Session-Id: "+err.Error())
		return nil, false
	}
	if s.serverCtx.Err() != nil {
		w.Header().Set("Retry-After", "30")
		rpcError(w, http.StatusServiceUnavailable, jsonrpc.CodeInternalError, "the server is shutting down; try again in 30 seconds")
		return nil, false
	}
	id, _ := access.From(r.Context())
	o := origin{transport: "mcp-http", session: name, address: address(r), identity: id, transportSession: place}
	if place != nil {
		o.connection = events.NewSessionID()
	}
	return r.WithContext(withOrigin(r.Context(), o)), true
}

// sessionName reads and checks the session name of a request. An empty header counts as
// absent: clients send one if their configuration names a variable that is not set. The
// tool list_session_snapshots reports the missing name.
func sessionName(h http.Header) (string, error) {
	values := h.Values(sessionHeader)
	switch {
	case len(values) == 0 || len(values) == 1 && values[0] == "":
		return "", nil
	case len(values) > 1:
		return "", fmt.Errorf("send the header once")
	}
	return values[0], ledger.CheckSession(values[0])
}

// guard refuses requests that a web page in a user's browser could send: requests to
// other host names, and requests from other origins.
func (s *Server) guard(next http.Handler) http.Handler {
	hosts := web.NewGuard(s.opts.Hosts)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w = &problemWriter{ResponseWriter: w}
		switch err := hosts.CheckAsWrite(r); { // a GET opens a stream
		case errors.Is(err, web.ErrForeignHost):
			http.Error(w, fmt.Sprintf("host %s is not served here; start the server with that host allowed", quote(r.Host)), http.StatusForbidden)
			return
		case err != nil:
			http.Error(w, "requests from web pages of another origin are refused", http.StatusForbidden)
			return
		}
		r.Header.Set(addressHeader, address(r))
		next.ServeHTTP(w, r)
	})
}

func address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// rpcError writes the JSON-RPC error for a request that does not reach the SDK and has
// no known id.
func rpcError(w http.ResponseWriter, status int, code int64, message string) {
	rpcAnswer(w, status, nil, code, message)
}

// rpcAnswer writes the JSON-RPC error for the request with an id.
func rpcAnswer(w http.ResponseWriter, status int, id json.RawMessage, code int64, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{ // an error means that the client has disconnected
		"jsonrpc": "2.0", "id": id,
		"error": map[string]any{"code": code, "message": message},
	})
}

// problemWriter converts plain-text errors of the inner handlers, including those of the
// SDK, to problem documents (RFC 9457) with the member error that all errors of Daybook
// have. JSON-RPC errors are unchanged.
type problemWriter struct {
	http.ResponseWriter
	problem bool
	status  int
}

// Unwrap lets http.ResponseController reach the inner writer.
func (w *problemWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader checks whether the response is a plain-text error.
func (w *problemWriter) WriteHeader(status int) {
	h := w.Header()
	if status >= http.StatusBadRequest && strings.HasPrefix(h.Get("Content-Type"), "text/plain") {
		w.problem, w.status = true, status
		h.Set("Content-Type", "application/problem+json")
		h.Del("Content-Length")
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write expects the complete text of an error in one call, as http.Error writes it.
func (w *problemWriter) Write(p []byte) (int, error) {
	if !w.problem {
		return w.ResponseWriter.Write(p)
	}
	text := string(bytes.TrimSpace(p))
	body, err := json.Marshal(object{
		{"type", "about:blank"}, {"title", http.StatusText(w.status)}, {"status", w.status}, {"detail", text}, {"error", text},
	})
	if err != nil {
		return 0, err
	}
	if _, err := w.ResponseWriter.Write(append(body, '\n')); err != nil {
		return 0, err
	}
	return len(p), nil
}
