package mcp

import (
	"context"
	"crypto/rand"
	"net/http"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/internal/resources/budget"
	"daybook/internal/resources/reads"
)

// accountHeader passes the key of the memory account of a request to its tool: the SDK
// gives a call the context of the request that opened the connection. A value from a
// client is removed.
const accountHeader = "Daybook-Account"

// messageCopies is the number of copies of an answer's content in memory while it
// becomes a message: as a value, as JSON, as JSON in a text, and in the message.
const messageCopies = 6

// accounts maps random keys to the memory accounts of HTTP requests and of calls over
// streams that are in progress.
type accounts struct{ sync.Map }

// withAccount lets the call in a request take memory that is held until the response is
// written. The caller MUST call release.
func (a *accounts) withAccount(r *http.Request) (release func()) {
	r.Header.Del(accountHeader)
	account := budget.From(r.Context())
	if account == nil {
		return func() {}
	}
	key := rand.Text()
	a.Store(key, account)
	r.Header.Set(accountHeader, key)
	return func() { a.Delete(key) }
}

// accountMemory accounts for the memory of answers in the account of the request, or in a
// new one. A call waits for memory only where it uses budget.Retry, as some reads do;
// elsewhere it fails immediately.
func (s *Server) accountMemory(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if s.opts.Budget == nil {
			return next(ctx, method, req)
		}
		var account *budget.Account
		if extra := req.GetExtra(); extra != nil {
			if known, ok := s.tenants.accounts.Load(extra.Header.Get(accountHeader)); ok {
				account = known.(*budget.Account).WithFactor(messageCopies)
			}
		}
		if account == nil {
			account = s.opts.Budget.Answer(s.tenant, messageCopies)
			defer account.Release()
		}
		return next(budget.With(ctx, account), method, req)
	}
}

// withPermit gives each request a permit for heavy reads, which ends with the request.
// The permit in ctx belongs to the HTTP request that opened the session.
func (s *Server) withPermit(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		p := s.opts.Reads.Permit(s.tenant)
		defer p.Yield()
		return next(reads.With(ctx, p), method, req)
	}
}

// takePermit waits until the request may do a heavy read.
func takePermit(ctx context.Context) error { return reads.From(ctx).Take(ctx) }

// escapeCopies is the number of copies of a text's escape sequences in memory while it
// becomes a message: in its JSON, and in the message.
const escapeCopies = 2

// takeEscapes accounts for the bytes that JSON escapes add to a text. A text of control
// characters is six times as long in a message.
func takeEscapes(ctx context.Context, text string) error {
	return budget.TakeOnce(ctx, escapeCopies*addedByEscapes(text)) //nolint:wrapcheck // the message is for the client
}

// addedByEscapes returns by how many bytes the JSON of a text is longer than the text,
// without quotes.
func addedByEscapes(text string) int {
	added := 0
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\' || c == '\n' || c == '\r' || c == '\t':
			added++
		case c < ' ' || c == '<' || c == '>' || c == '&':
			added += 5
		}
	}
	return added
}
