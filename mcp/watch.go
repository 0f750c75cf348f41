package mcp

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/events"
	"daybook/internal/resources/reads"
	"daybook/internal/web/access"
	"daybook/ledger"
)

const (
	// maxWatched bounds the addresses watched at a time, over all clients.
	maxWatched = 1024
	// maxSessionWatched bounds those of one connection.
	maxSessionWatched = 100
	// watchPause is the least time between two looks at what is watched: a run
	// that prints a thousand lines a second is not a thousand notifications.
	watchPause = 100 * time.Millisecond
	// watchShare bounds the time spent with looking: a pause is this many times as
	// long as the look before it.
	watchShare = 10
)

// watches are the addresses that clients want to hear of. One goroutine looks
// at them whenever the projections have changed; it lives while there are any.
type watches struct {
	mu      sync.Mutex
	seen    map[string]string                      // address -> version last told
	by      map[string]map[*sdk.ServerSession]bool // address -> who wants to know
	number  map[*sdk.ServerSession]int             // how many addresses each watches
	closers map[*sdk.ServerSession]bool            // sessions whose end is awaited
	looking bool                                   // the goroutine runs
	running sync.WaitGroup
}

func newWatches() *watches {
	return &watches{seen: map[string]string{}, by: map[string]map[*sdk.ServerSession]bool{}, number: map[*sdk.ServerSession]int{}, closers: map[*sdk.ServerSession]bool{}}
}

// subscribe begins to watch an address for a session.
func (s *Server) subscribe(ctx context.Context, req *sdk.SubscribeRequest) error {
	uri := req.Params.URI
	if s.isFixture(uri) {
		return nil
	}
	w := s.watches
	w.mu.Lock()
	full := w.full(uri, req.Session)
	w.mu.Unlock()
	tooMany := ledger.Invalid("uri", "a connection may watch %d addresses; unsubscribe from one, or poll with the tools", maxSessionWatched)
	if full {
		return s.unreadable(ctx, uri, tooMany)
	}
	version, err := s.version(ctx, uri)
	if err != nil {
		return s.unreadable(ctx, uri, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.serverCtx.Err() != nil {
		return errClosing
	}
	if w.full(uri, req.Session) { // others of the same connection came in meanwhile
		return s.unreadable(ctx, uri, tooMany)
	}
	if w.by[uri] == nil {
		if len(w.by) >= maxWatched {
			return s.unreadable(ctx, uri, ledger.Invalid("uri", "too many addresses are watched; unsubscribe from one, or poll with the tools"))
		}
		w.by[uri] = map[*sdk.ServerSession]bool{}
		w.seen[uri] = version
	}
	if !w.by[uri][req.Session] {
		w.by[uri][req.Session] = true
		w.number[req.Session]++
	}
	if !w.closers[req.Session] {
		w.closers[req.Session] = true
		w.running.Go(func() {
			_ = req.Session.Wait() // however it ended
			w.forget(req.Session)
		})
	}
	if !w.looking {
		w.looking = true
		w.running.Go(s.pollWatched)
	}
	return nil
}

// bounded holds a request that names several addresses to what as many requests
// might do.
func (s *Server) bounded(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		p, ok := req.GetParams().(*sdk.SubscriptionsListenParams)
		if !ok || p == nil || p.Notifications == nil {
			return next(ctx, method, req)
		}
		n := len(p.Notifications.ResourceSubscriptions)
		if n > maxSessionWatched {
			return nil, invalidParams("subscriptions/listen names %d addresses; one request may watch %d", n, maxSessionWatched)
		}
		id, _ := access.From(ctx)
		_, err := s.opts.Quotas.CountRequests(id, n-1)
		if over, limited := errors.AsType[*access.LimitError](err); limited {
			return nil, limitProblem(over)
		}
		return next(ctx, method, req)
	}
}

// full reports whether a session may watch no further address. It is called with the
// lock held.
func (w *watches) full(uri string, ss *sdk.ServerSession) bool {
	return w.number[ss] >= maxSessionWatched && !w.by[uri][ss]
}

// unsubscribe ends watching an address for a session.
func (s *Server) unsubscribe(_ context.Context, req *sdk.UnsubscribeRequest) error {
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	s.watches.drop(req.Params.URI, req.Session)
	return nil
}

// drop is called with the lock held.
func (w *watches) drop(uri string, ss *sdk.ServerSession) {
	if w.by[uri][ss] {
		delete(w.by[uri], ss)
		if w.number[ss]--; w.number[ss] == 0 {
			delete(w.number, ss)
		}
	}
	if len(w.by[uri]) == 0 {
		delete(w.by, uri)
		delete(w.seen, uri)
	}
}

// wait waits for the goroutines. The server must have been closed: nothing new
// begins once the lock was free after that.
func (w *watches) wait() {
	w.mu.Lock()
	w.mu.Unlock() //nolint:staticcheck // only to let a subscribe in progress finish
	w.running.Wait()
}

// forget drops a session that has ended.
func (w *watches) forget(ss *sdk.ServerSession) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.closers, ss)
	for _, uri := range slices.Collect(maps.Keys(w.by)) {
		w.drop(uri, ss)
	}
}

// pollWatched tells clients what has changed, until nothing is watched any more or
// the server is closed.
func (s *Server) pollWatched() {
	pause := time.NewTimer(watchPause)
	defer pause.Stop()
	for {
		// The pause comes first: the SDK knows a subscriber only some time after
		// subscribe has returned.
		select {
		case <-pause.C:
		case <-s.serverCtx.Done():
		}
		changed := s.opts.Queries.NextCommit() // before looking: a change in between is not missed
		uris := s.watched()
		if len(uris) == 0 {
			return
		}
		began := time.Now()
		for _, uri := range uris {
			s.tell(uri)
		}
		next := max(watchPause, watchShare*time.Since(began))
		select {
		case <-changed: // that nobody watches any more is noticed then, too
		case <-s.serverCtx.Done():
		}
		pause.Reset(next)
	}
}

// watched lists what is watched, or ends the looking.
func (s *Server) watched() []string {
	w := s.watches
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.by) == 0 || s.serverCtx.Err() != nil {
		w.looking = false
		return nil
	}
	return slices.Collect(maps.Keys(w.by))
}

// tell notifies those who watch an address if it has changed.
func (s *Server) tell(uri string) {
	p := s.opts.Reads.Permit(s.tenant)
	version, err := s.version(reads.With(s.serverCtx, p), uri)
	p.Yield()
	if err != nil {
		return // it was there: the projections cannot answer now, and will change
	}
	w := s.watches
	w.mu.Lock()
	last, ok := w.seen[uri]
	if ok {
		w.seen[uri] = version
	}
	w.mu.Unlock()
	if ok && last != version {
		// A client that cannot be told has gone, and is forgotten when it ends.
		_ = s.sdk.ResourceUpdated(s.serverCtx, &sdk.ResourceUpdatedNotificationParams{URI: uri})
	}
}

// version is a text that changes when what is at an address does.
func (s *Server) version(ctx context.Context, uri string) (string, error) {
	for _, r := range s.resources() {
		if name, ok := r.named(uri); ok {
			return r.version(ctx, name)
		}
	}
	return "", events.ErrNotFound
}
