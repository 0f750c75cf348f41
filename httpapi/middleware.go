package httpapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"time"
	"unicode/utf8"

	"daybook/internal/resources/budget"
	"daybook/internal/resources/reads"
	"daybook/internal/web"
	"daybook/internal/web/access"
	"daybook/ledger"
)

// answerCopies is the number of copies of a response body that are in memory while the body
// is encoded as JSON.
const answerCopies = 3

// maxBody bounds every request body, in bytes.
const maxBody = ledger.MaxRequestBytes

// withChecks applies the guard, the limits and the deadlines to every request before routing.
func (a *api) withChecks(next http.Handler) http.Handler {
	return http.HandlerFunc(func(raw http.ResponseWriter, r *http.Request) {
		w := newResponse(raw, a.pace)
		defer a.recoverPanic(r.Context(), w, r.Method, r.URL.Path) // its arguments do not hold the request, whose header may be large
		// A kept-alive connection still has the previous request's deadline.
		_ = w.rc.SetWriteDeadline(time.Time{})
		setSecurityHeaders(w.Header())
		if r.TLS != nil && !web.IsLoopback(r.Host) {
			w.Header().Set("Strict-Transport-Security", "max-age=31536000")
		}
		if err := a.guard.Check(r); err != nil {
			writeFailure(w, guardFailure(r, err))
			return
		}
		r, f := a.gate.admit(r)
		if f != nil {
			writeFailure(w, f)
			return
		}
		id, _ := access.From(r.Context())
		w.permit = a.reads.Permit(id.Tenant)
		defer w.permit.Yield()
		r = r.WithContext(reads.With(r.Context(), w.permit))
		var account *budget.Account
		if a.budget != nil {
			account = a.budget.Answer(id.Tenant, answerCopies)
			defer account.Release()
			r = r.WithContext(budget.With(r.Context(), account))
		}
		if r.ContentLength > maxBody {
			writeFailure(w, bodyTooLarge())
			return
		}
		if r.Body != nil && r.Body != http.NoBody {
			// The body is set on a copy: the server inspects the body of its own request to find
			// out whether unread bytes are left on the connection.
			b := &body{
				ReadCloser: http.MaxBytesReader(raw, r.Body, maxBody), w: w, account: account, progress: progress{pace: a.pace},
				length: r.ContentLength,
			}
			r = r.WithContext(context.WithValue(r.Context(), bodyKey{}, b))
			b.ctx = r.Context()
			defer b.release()
			b.extendDeadline()
			r.Body = b
		}
		next.ServeHTTP(w, r)
		w.renew() // for bytes that are still buffered
	})
}

func bodyTooLarge() *failure {
	return fail(http.StatusRequestEntityTooLarge, string(ledger.CodeTooLarge), "", "%s", ledger.ErrRequestTooLarge.Message)
}

// bodyKey is the context key of the request's *body.
type bodyKey struct{}

// forgetBody releases the memory of the request's body. The handler MUST NOT use the
// content of the body afterwards.
func forgetBody(ctx context.Context) {
	if b, ok := ctx.Value(bodyKey{}).(*body); ok {
		b.forget()
	}
}

// recoverPanic turns a panic into an error response, or aborts a response that has started.
func (a *api) recoverPanic(ctx context.Context, w *response, method, path string) {
	v := recover()
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler { //nolint:errorlint // net/http compares it the same way
		panic(v)
	}
	if ctx.Err() != nil || w.broken {
		panic(http.ErrAbortHandler) // the client has disconnected, which broke the write
	}
	f := a.internalFailure(ctx, fmt.Errorf("panic in %s %s: %v\n%s", method, path, v, debug.Stack()))
	if w.started {
		panic(http.ErrAbortHandler)
	}
	writeFailure(w, f)
}

// withRouting responds with a problem document if no route matches. For other requests it
// checks the scope, counts streams, and adds the request data to the context.
func (a *api) withRouting(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := mux.Handler(r)
		if pattern == "" {
			serveUnrouted(w, r, h)
			return
		}
		if f := a.gate.authorize(r, pattern); f != nil {
			writeFailure(w, f)
			return
		}
		if isStream(r) {
			held, release, f := a.gate.holdStream(r)
			if f != nil {
				writeFailure(w, f)
				return
			}
			defer release()
			r = held
		}
		if !strings.HasPrefix(r.URL.Path, "/api/") {
			mux.ServeHTTP(w, r)
			return
		}
		query, f := parseQuery(r.URL.RawQuery)
		if f != nil {
			writeFailure(w, f)
			return
		}
		info := newRequest(r, query)
		r = r.WithContext(context.WithValue(r.Context(), requestKey{}, info))
		// Streams are selected by the Accept header in info. All other responses are JSON,
		// whatever Accept asks for.
		r.Header = maps.Clone(info.header)
		r.Header.Set("Accept", "application/json")
		mux.ServeHTTP(w, r)
	})
}

// apiHeader returns the header fields that the operations read. The other fields are
// not held while the operations wait.
func apiHeader(all http.Header) http.Header {
	h := http.Header{}
	for _, name := range []string{"Accept", "Content-Encoding", "Content-Type", "Daybook-Min-Sequence", "Idempotency-Key", "If-None-Match", "If-Range", "Last-Event-Id", "Range"} {
		if values, given := all[name]; given {
			h[name] = values
		}
	}
	return h
}

// serveUnrouted answers a request without a route. It runs h, the handler of the mux, to get
// the status and the Allow header.
func serveUnrouted(w http.ResponseWriter, r *http.Request, h http.Handler) {
	probe := &probeWriter{header: http.Header{}}
	h.ServeHTTP(probe, r)
	switch {
	case probe.status == http.StatusMethodNotAllowed:
		allow := probe.header.Get("Allow")
		w.Header().Set("Allow", allow)
		writeFailure(w, fail(probe.status, codeNotAllowed, "", "%s is not allowed on %s; use %s", r.Method, r.URL.Path, allow))
	case probe.status >= 300 && probe.status < 400:
		h.ServeHTTP(w, r)
	default:
		writeFailure(w, fail(http.StatusNotFound, "not_found", "", "there is no route for %s; GET /openapi.json lists the routes", r.URL.Path))
	}
}

type probeWriter struct {
	header http.Header
	status int
}

func (p *probeWriter) Header() http.Header { return p.header }

func (p *probeWriter) WriteHeader(code int) {
	if p.status == 0 {
		p.status = code
	}
}

func (p *probeWriter) Write(b []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	return len(b), nil
}

// repeatableParams has the query parameters that a request may give more than once.
var repeatableParams = map[string]bool{"tag": true, "type": true}

// parseQuery parses a query. It refuses malformed escapes, repeated parameters, and
// text that is not UTF-8 or holds NUL, which the standard parser drops or accepts
// silently.
func parseQuery(raw string) (url.Values, *failure) {
	query, err := url.ParseQuery(raw)
	if err != nil {
		var escape url.EscapeError
		if errors.As(err, &escape) {
			return nil, invalid("query", "the query is not well formed: %v; write %% as %%25", err)
		}
		return nil, invalid("query", "the query is not well formed: %v", err)
	}
	for name, values := range query {
		if len(values) > 1 && !repeatableParams[name] {
			return nil, invalid(name, "%s is given %d times in the query; give it once", name, len(values))
		}
		for _, v := range values {
			if !utf8.ValidString(v) || !utf8.ValidString(name) || strings.ContainsRune(v, 0) {
				return nil, invalid(name, "%s in the query is not valid UTF-8 text, or holds a NUL byte", strings.ToValidUTF8(name, "\uFFFD"))
			}
		}
	}
	return query, nil
}
