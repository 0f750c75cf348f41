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

// identityKey is where a token's identity travels within the SDK's own
// description of the token.
const identityKey = "daybook identity"

// authenticate lets requests with a good token through, with the identity in
// their context. The SDK binds what it keeps for a session to the user of the
// request that began it.
func (s *Server) authenticate(next http.Handler) http.Handler {
	if s.opts.Auth == nil {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r.WithContext(access.With(r.Context(), access.Anonymous())))
		})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		auth.RequireBearerToken(s.verify, &auth.RequireBearerTokenOptions{
			ResourceMetadataURL:    web.BaseURL(r, s.opts.PublicURL) + web.MetadataPath + r.URL.Path,
			AllowMissingExpiration: true, // the authenticator knows when a token ends
		})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			id, _ := auth.TokenInfoFromContext(r.Context()).Extra[identityKey].(access.Identity)
			next.ServeHTTP(w, r.WithContext(access.With(r.Context(), id)))
		})).ServeHTTP(w, r)
	})
}

// verify tells the SDK whose a token is. Where somebody before has asked, the
// answer is in the context.
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

// errUnidentified is a request of nobody, which cannot be: every transport
// knows whom it serves.
var errUnidentified = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the request has no identity"}

// identify puts the identity behind each request into its context: that of
// the request's own token where it has one, else of the connection. Requests for
// another tenant than this server's cannot reach it, and are refused if they do.
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
		if !id.Scopes.Has(access.Run) { // what is noted in a context is recorded
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

// scopeOfMethod is what a method needs, but for tools, which need something
// each. Methods that tell nothing of what is on record need nothing.
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

// scope is what a tool needs.
func (t tool) scope() access.Scope {
	if t.readOnly {
		return access.Read
	}
	return access.Run
}

// checkScope refuses a call by somebody who may not make it.
func checkScope(ctx context.Context, t tool) error {
	id, _ := access.From(ctx)
	if err := id.Require(t.scope()); err != nil {
		return forbiddenError(err)
	}
	return nil
}

// filterTools leaves out of a list the tools that the caller may not call: a model
// should not be tempted.
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

// endpointPattern finds the name of a connection in the first event of the legacy
// transport.
var endpointPattern = regexp.MustCompile(`sessionid=([A-Za-z0-9]+)`)

// bindings remember, for the legacy transport, who opened which connection. The
// SDK does so for the other transports only.
type bindings struct {
	mu     sync.Mutex
	owners map[string]access.Identity
}

// requireOwner lets only who opened a connection send messages to it, with a token that
// allows the same. To everybody else it does not exist.
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

// endpointWriter looks for the connection's name in what is written first,
// before the client can see it.
type endpointWriter struct {
	http.ResponseWriter
	onFound func(name string)
	name    string
	head    []byte
}

// maxHead is how much is looked through for the name, in bytes.
const maxHead = 4 << 10

// Write passes p on.
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
