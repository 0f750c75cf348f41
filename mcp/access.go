package mcp

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"regexp"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/internal/contextstore"
	"daybook/internal/web"
	"daybook/internal/web/access"
	"daybook/ledger"
)

// identityKey is the key of a token's identity in the SDK's auth.TokenInfo.
const identityKey = "daybook identity"

// authenticate passes on the requests that have a valid token, with the identity in their
// context. The SDK binds a session to the user of the request that opened it.
func (s *Server) authenticate(next http.Handler) http.Handler {
	if s.opts.Auth == nil {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r.WithContext(access.With(r.Context(), access.Anonymous())))
		})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		auth.RequireBearerToken(s.verify, &auth.RequireBearerTokenOptions{
			ResourceMetadataURL:    web.BaseURL(r, s.opts.PublicURL) + web.MetadataPath + r.URL.Path,
			AllowMissingExpiration: true, // the authenticator checks when a token expires
		})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			id, _ := auth.TokenInfoFromContext(r.Context()).Extra[identityKey].(access.Identity)
			next.ServeHTTP(w, r.WithContext(access.With(r.Context(), id)))
		})).ServeHTTP(w, r)
	})
}

// verify returns the SDK's description of a token. It takes the identity from the
// context if the token is already authenticated.
func (s *Server) verify(ctx context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	id, known := access.From(ctx)
	if !known {
		var err error
		if id, err = s.opts.Auth.Authenticate(ctx, token); err != nil {
			if _, bad := errors.AsType[*access.TokenError](err); bad {
				return nil, errors.Join(auth.ErrInvalidToken, err)
			}
			return nil, err
		}
	}
	info := &auth.TokenInfo{UserID: id.User(), Expiration: id.Expires, Extra: map[string]any{identityKey: id}}
	for _, one := range id.Scopes.List() {
		info.Scopes = append(info.Scopes, string(one))
	}
	return info, nil
}

// errUnidentified means a programming error: every transport sets the identity of its
// requests.
var errUnidentified = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the request has no identity"}

// identify puts the identity of each request into its context: that of the request's
// token, else that of the connection. Requests of another tenant cannot reach this
// server; it refuses them nevertheless.
func (s *Server) identify(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		o, _ := ctx.Value(originKey{}).(origin)
		id := o.identity
		if extra := req.GetExtra(); extra != nil && extra.TokenInfo != nil {
			id, _ = extra.TokenInfo.Extra[identityKey].(access.Identity)
		}
		if id.Tenant != s.tenant {
			return nil, errUnidentified
		}
		ctx = access.With(ctx, id)
		if !id.Scopes.Has(access.Run) { // notes in a conversation context are recorded
			ctx = contextstore.WithoutTrace(ctx)
		}
		if ss, ok := req.GetSession().(*sdk.ServerSession); ok && o.transportSession != nil && method == "initialize" {
			o.transportSession.attach(ss)
		}
		if scope := scopeOfMethod(method); scope != "" {
			if err := id.Require(scope); err != nil {
				return nil, s.protocolError(ctx, method, forbiddenError(err))
			}
		}
		return next(ctx, method, req)
	}
}

// scopeOfMethod returns the scope that a method needs. Tools have scopes of their own.
// Methods that return no recorded data need no scope.
func scopeOfMethod(method string) access.Scope {
	switch method {
	case "resources/read", "resources/subscribe", "subscriptions/listen", "completion/complete", "tasks/get", "tasks/result", "tasks/list":
		return access.Read
	case "tasks/cancel", "tasks/update":
		return access.Run
	default:
		return ""
	}
}

// scope returns the scope that a tool needs.
func (t tool) scope() access.Scope {
	if t.readOnly {
		return access.Read
	}
	return access.Run
}

// checkScope returns an error unless the caller has the scope of the tool.
func checkScope(ctx context.Context, t tool) error {
	id, _ := access.From(ctx)
	if err := id.Require(t.scope()); err != nil {
		return forbiddenError(err)
	}
	return nil
}

// filterTools returns the list without the tools that the caller may not call, so that
// models do not try them.
func filterTools(ctx context.Context, res *sdk.ListToolsResult, tools map[string]tool) *sdk.ListToolsResult {
	list := make([]*sdk.Tool, 0, len(res.Tools))
	for _, t := range res.Tools {
		if known, ours := tools[t.Name]; !ours || checkScope(ctx, known) == nil {
			list = append(list, t)
		}
	}
	some := *res
	some.Tools = list
	return &some
}

func forbiddenError(err error) error {
	return &ledger.Error{Code: ledger.CodeInvalid, Message: err.Error(), Err: err}
}

// endpointPattern matches the id of a connection in the first event of the legacy
// transport.
var endpointPattern = regexp.MustCompile(`sessionid=([A-Za-z0-9]+)`)

// bindings map connections of the legacy transport to the callers that opened them. For
// the other transports the SDK does this.
type bindings struct {
	mu     sync.Mutex
	owners map[string]access.Identity
}

// requireOwner accepts messages for a connection only from the caller that opened it,
// with the same scopes. Other callers get the answer for an unknown connection.
func (b *bindings) requireOwner(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, _ := access.From(r.Context())
		if r.Method != http.MethodGet {
			name := r.URL.Query().Get("sessionid")
			b.mu.Lock()
			owner, known := b.owners[name]
			b.mu.Unlock()
			if name != "" && (!known || owner.User() != id.User() || owner.Scopes != id.Scopes) {
				http.Error(w, "session not found", http.StatusNotFound)
				return
			}
			next.ServeHTTP(w, r)
			return
		}
		opening := &endpointWriter{ResponseWriter: w, onFound: func(name string) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.owners[name] = id
		}}
		defer func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			delete(b.owners, opening.name)
		}()
		next.ServeHTTP(opening, r)
	})
}

// endpointWriter finds the connection's id in the first event, before the client can see
// it.
type endpointWriter struct {
	http.ResponseWriter
	onFound func(name string)
	name    string
	head    []byte
}

// maxHead bounds the search for the id, in bytes.
const maxHead = 4 << 10

// Write passes p on and searches it for the id.
func (w *endpointWriter) Write(p []byte) (int, error) {
	if w.name == "" && len(w.head) < maxHead {
		w.head = append(w.head, p[:min(len(p), maxHead-len(w.head))]...)
		if end := bytes.LastIndexByte(w.head, '\n'); end >= 0 {
			if m := endpointPattern.FindSubmatch(w.head[:end]); m != nil {
				w.name = string(m[1])
				w.onFound(w.name)
			}
		}
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController flush.
func (w *endpointWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush sends what is buffered.
func (w *endpointWriter) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }
