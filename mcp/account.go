package mcp

import (
	"context"
	"crypto/rand"
	"net/http"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/internal/budget"
	"daybook/internal/reads"
)

// accountHeader carries the key of the account of an HTTP request to its tool: the
// SDK gives a call the context of the request that opened the connection. What a
// client sends under it is not believed.
const accountHeader = "Daybook-Account"

// messageCopies is how often the content of an answer is in memory while it becomes
// a message: as a value, as JSON, as JSON in a text, and in the message.
const messageCopies = 6

// accounts are those of HTTP requests that are being answered, by a key of their own.
type accounts struct{ sync.Map }

// withAccount lets the call in a request take memory that is held until the answer is
// written. release MUST be called.
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

// accounted takes the memory of answers from the account of the request, or from one
// of their own. A call that only reads waits for memory.
func (s *Server) accounted(next sdk.MethodHandler) sdk.MethodHandler {
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

// permitted waits for the permit of a call that is heavy. done MUST be called.
func (s *Server) permitted(ctx context.Context) (_ context.Context, done func(), err error) {
	p := s.opts.Reads.Permit(s.tenant)
	if err := p.Take(ctx); err != nil {
		return ctx, nil, err
	}
	return reads.With(ctx, p), p.Yield, nil
}
