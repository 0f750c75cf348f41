package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"daybook/internal/web"
	"daybook/internal/web/access"
)

// codeUnauthenticated is the code of a request without a valid token.
const codeUnauthenticated = "unauthenticated"

// recheckInterval is the interval between two checks of the token of an open stream. A
// stream ends when its token is revoked or its scopes change.
const recheckInterval = 2 * time.Second

// gatekeeper identifies the callers of requests and checks their scopes and limits.
type gatekeeper struct {
	auth   access.Authenticator // nil: no token is needed
	quotas *access.Quotas       // nil: no limits
	// scopes has the scope that a route needs, by pattern. A route without an entry needs
	// a valid token only.
	scopes map[string]access.Scope
	// public is the address of the service for clients; empty for the address of the
	// request.
	public string
}

// isPublicPath reports whether a path needs no token.
func isPublicPath(path string) bool {
	switch path {
	case "/", "/healthz", "/readyz":
		return true
	}
	return path == web.MetadataPath || strings.HasPrefix(path, web.MetadataPath+"/")
}

// admit puts the identity of the caller into the context of the request, or refuses the
// request. On public paths a valid token is used and an invalid one ignored.
func (g *gatekeeper) admit(r *http.Request) (*http.Request, *failure) {
	id, f := g.identify(r)
	switch {
	case f != nil && isPublicPath(r.URL.Path):
		return r, nil
	case f != nil:
		return r, f
	}
	if g.quotas != nil && !isPublicPath(r.URL.Path) {
		if err := g.quotas.CountRequest(id); err != nil {
			return r, accessFailure(err)
		}
	}
	return r.WithContext(access.With(r.Context(), id)), nil
}

func (g *gatekeeper) identify(r *http.Request) (access.Identity, *failure) {
	if g.auth == nil {
		return access.Anonymous(), nil
	}
	// The owner's socket identifies its clients without a token.
	if local, known := access.From(r.Context()); known && r.Header.Get("Authorization") == "" {
		return local, nil
	}
	token, err := access.Bearer(r.Header)
	if err != nil {
		return access.Identity{}, g.challenge(r, err)
	}
	id, err := g.auth.Authenticate(r.Context(), token)
	if err != nil {
		return access.Identity{}, g.challenge(r, err)
	}
	return id, nil
}

// challenge turns an error of package access into a response whose WWW-Authenticate
// header names what is missing.
func (g *gatekeeper) challenge(r *http.Request, err error) *failure {
	f := accessFailure(err)
	about := web.MetadataPath
	if r.URL.Path == "/mcp" || r.URL.Path == "/sse" {
		about += r.URL.Path
	}
	params := []string{fmt.Sprintf("resource_metadata=%q", web.BaseURL(r, g.public)+about)}
	var bad *access.TokenError
	var scope *access.ScopeError
	switch {
	case errors.As(err, &bad) && !bad.Missing:
		params = append(params, `error="invalid_token"`, fmt.Sprintf("error_description=%q", removeUnquotable(bad.Reason)))
	case errors.As(err, &scope):
		missing := scope.Missing
		if id, _ := access.From(r.Context()); id.Origin == "oidc" {
			missing = missing.AtIssuer()
		}
		params = append(params, `error="insufficient_scope"`, fmt.Sprintf("scope=%q", missing))
	case !errors.As(err, &bad):
		return f
	}
	f.challenge = "Bearer " + strings.Join(params, ", ")
	return f
}

// removeUnquotable removes characters that a quoted parameter must not contain (RFC 6750).
func removeUnquotable(s string) string {
	return strings.Map(func(c rune) rune {
		if c == '"' || c == '\\' || c < 0x20 || c > 0x7e {
			return -1
		}
		return c
	}, s)
}

// accessFailure maps errors of package access to HTTP; no other function does.
func accessFailure(err error) *failure {
	var token *access.TokenError
	var scope *access.ScopeError
	var limit *access.LimitError
	var down *access.UnavailableError
	switch {
	case errors.As(err, &token):
		return fail(http.StatusUnauthorized, codeUnauthenticated, "Authorization", "%s", token.Error())
	case errors.As(err, &scope):
		return fail(http.StatusForbidden, codeForbidden, "Authorization", "%s", scope.Error())
	case errors.As(err, &limit):
		f := fail(http.StatusTooManyRequests, "exhausted", "", "%s", limit.Error())
		f.retryAfter = limit.RetryAfterSeconds()
		return f
	case errors.As(err, &down):
		f := unavailable("%s", down.Error())
		f.retryAfter = 5
		return f
	default:
		return unavailable("the request was cancelled before its response was ready; send it again")
	}
}

// authorize checks that the caller of an admitted request has the scope of a route.
func (g *gatekeeper) authorize(r *http.Request, pattern string) *failure {
	scope, needed := g.scopes[pattern]
	id, known := access.From(r.Context())
	if !needed || !known && isPublicPath(r.URL.Path) {
		return nil
	}
	if err := id.Require(scope); err != nil {
		return g.challenge(r, err)
	}
	return nil
}

// isStream reports whether a request asks for a stream: a response that stays open. The replay
// of a session is one; that of an execution is a single answer. The text of --limit-streams
// lists the same requests.
func isStream(r *http.Request) bool {
	return r.Method == http.MethodGet && (r.URL.Path == "/sse" || streamType(r.Header.Values("Accept")) == typeSSE || follows(r)) ||
		strings.HasPrefix(r.URL.Path, "/api/sessions/") && strings.HasSuffix(r.URL.Path, "/replay") ||
		r.Header.Get("Mcp-Method") == "subscriptions/listen"
}

// follows reports whether the parameter follow is set and not false.
func follows(r *http.Request) bool {
	query := r.URL.Query()
	value, err := strconv.ParseBool(query.Get("follow"))
	return query.Has("follow") && (value || err != nil)
}

// holdStream counts a stream against the limits of its caller, and cancels the returned
// request when the token is refused or its scopes change. The caller MUST call release.
func (g *gatekeeper) holdStream(r *http.Request) (_ *http.Request, release func(), _ *failure) {
	done := func() {}
	id, known := access.From(r.Context())
	if !known { // only on public paths, none of which is a stream
		return r, done, nil
	}
	if g.quotas != nil {
		var err error
		if done, err = g.quotas.OpenStream(id); err != nil {
			return r, nil, accessFailure(err)
		}
	}
	// The token is read here: handlers may change the header during the stream.
	token, missing := access.Bearer(r.Header)
	if g.auth == nil || missing != nil {
		return r, done, nil //nolint:nilerr // without a token, none can be revoked
	}
	ctx, cancel := context.WithCancel(r.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		again := time.NewTicker(recheckInterval)
		defer again.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-again.C:
			}
			now, err := g.auth.Authenticate(ctx, token)
			if _, refused := errors.AsType[*access.TokenError](err); refused || err == nil && now.Scopes != id.Scopes {
				cancel()
				return
			}
		}
	}()
	return r.WithContext(ctx), func() { cancel(); <-stopped; done() }, nil
}

// resourceMetadata is the metadata of a protected resource (RFC 9728).
type resourceMetadata struct {
	Resource             string         `json:"resource"`
	Name                 string         `json:"resource_name"`
	AuthorizationServers []string       `json:"authorization_servers,omitempty"`
	ScopesSupported      []access.Scope `json:"scopes_supported"`
	BearerMethods        []string       `json:"bearer_methods_supported"`
}

// metadata serves the resource metadata of the service and of each path in it.
func (g *gatekeeper) metadata(issuers []string) http.Handler {
	scopes := access.AllScopes.List()
	if len(issuers) > 0 {
		for i, one := range scopes {
			scopes[i] = one.AtIssuer()
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, resourceMetadata{
			Resource:             web.BaseURL(r, g.public) + strings.TrimPrefix(r.URL.Path, web.MetadataPath),
			Name:                 "Daybook",
			AuthorizationServers: issuers,
			ScopesSupported:      scopes,
			BearerMethods:        []string{"header"},
		})
	})
}
