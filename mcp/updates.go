package mcp

import (
	"context"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// updatedMethod is the notification that a watched address has changed.
const updatedMethod = "notifications/resources/updated"

// updates sends the notifications about watched addresses. Each session has a goroutine
// of its own, so that a client that does not read delays no other one. At most one
// notification per address waits for a session. It is safe for concurrent use.
type updates struct {
	serverCtx context.Context
	running   *sync.WaitGroup

	mu      sync.Mutex
	pending map[sdk.Session]map[string]func(context.Context) // by address; a session has an entry while its goroutine runs
}

// middleware returns the handler that passes the notifications about watched addresses to
// send.
func (u *updates) middleware(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		p, ok := req.GetParams().(*sdk.ResourceUpdatedNotificationParams)
		if method != updatedMethod || !ok || p == nil {
			return next(ctx, method, req)
		}
		// The SDK cancels ctx when the handler returns.
		u.send(context.WithoutCancel(ctx), req.GetSession(), p.URI, func(ctx context.Context) {
			_, _ = next(ctx, method, req) // an error means that the session is ending, which also ends its subscriptions
		})
		return nil, nil
	}
}

// send calls fn in the goroutine of a session. If send is called again for the same
// address before that, only the later fn is called.
func (u *updates) send(ctx context.Context, session sdk.Session, uri string, fn func(context.Context)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	list, busy := u.pending[session]
	if !busy {
		list = map[string]func(context.Context){}
		u.pending[session] = list
	}
	list[uri] = fn
	if busy {
		return
	}
	u.running.Go(func() {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(u.serverCtx, cancel)()
		for fn := u.next(session); fn != nil; fn = u.next(session) {
			fn(ctx)
		}
	})
}

// next removes and returns a notification of a session. It returns nil, and ends the
// session's goroutine, if there is none.
func (u *updates) next(session sdk.Session) func(context.Context) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for uri, fn := range u.pending[session] {
		delete(u.pending[session], uri)
		return fn
	}
	delete(u.pending, session)
	return nil
}
