package mcp

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/internal/resources/budget"
	"daybook/internal/resources/reads"
	"daybook/projections"
)

// accountHeader carries the key of the account of an HTTP request, or of a call over a
// pipe, to its tool: the SDK gives a call the context of the request that opened the
// connection. What a client sends under it is not believed.
const accountHeader = "Daybook-Account"

// messageCopies is how often the content of an answer is in memory while it becomes
// a message: as a value, as JSON, as JSON in a text, and in the message.
const messageCopies = 6

// accounts are those of HTTP requests and of calls over pipes that are being answered, by
// a key of their own.
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

// accountMemory takes the memory of answers from the account of the request, or from one
// of their own. A call that only reads waits for memory.
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

// withPermit gives each request a permit for heavy reads of its own, which ends with
// the request. The one that ctx carries is of the HTTP request that opened the session.
func (s *Server) withPermit(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		p := s.opts.Reads.Permit(s.tenant)
		defer p.Yield()
		return next(reads.With(ctx, p), method, req)
	}
}

// takePermit waits for the permit of a request that is heavy.
func takePermit(ctx context.Context) error { return reads.From(ctx).Take(ctx) }

// execution reads an execution. Its texts may have taken the permit, which is not held
// while the caller waits for the end of a run or for its client. Of texts that are larger
// than one answer it has the beginning. In stateless mode that is an error: the answer is
// the only place of a result.
func (s *Server) execution(ctx context.Context, id string) (projections.ExecutionDetail, error) {
	d, err := s.opts.Queries.Execution(ctx, s.tenant, id)
	reads.From(ctx).Yield()
	if full, exhausted := errors.AsType[*budget.ExhaustedError](err); exhausted && full.IsPermanent() && !s.opts.Stateless {
		return s.opts.Queries.ExecutionPreview(ctx, s.tenant, id)
	}
	return d, err
}
