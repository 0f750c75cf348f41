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
	// minWatchInterval is the least time between two looks at what is watched: a run
	// that prints a thousand lines a second is not a thousand notifications.
	minWatchInterval = 100 * time.Millisecond
	// watchPauseFactor bounds the time spent with looking: a pause is this many times as
	// long as the look before it.
	watchPauseFactor = 10
)

// watches are the addresses that clients want to hear of. One goroutine looks
// at them whenever the projections have changed; it lives while there are any.
type watches struct {
	mu              sync.Mutex
	versions        map[string]string                      // address -> version last told
	watchers        map[string]map[*sdk.ServerSession]bool // address -> who wants to know
	watchedCount    map[*sdk.ServerSession]int             // how many addresses each watches
	awaitedSessions map[*sdk.ServerSession]bool            // sessions whose end is awaited
	polling         bool                                   // the goroutine runs
	running         sync.WaitGroup
}

func newWatches() *watches {
	return &watches{versions: map[string]string{}, watchers: map[string]map[*sdk.ServerSession]bool{}, watchedCount: map[*sdk.ServerSession]int{}, awaitedSessions: map[*sdk.ServerSession]bool{}}
}

// subscribe begins to watch an address for a session.
func (s *Server) subscribe(ctx context.Context, req *sdk.SubscribeRequest) error {
	uri := req.Params.URI
	if s.isFixture(uri) {
		return nil
	}
	w := s.watches
	w.mu.Lock()
	full := w.isFull(uri, req.Session)
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
	if w.isFull(uri, req.Session) { // others of the same connection came in meanwhile
		return s.unreadable(ctx, uri, tooMany)
	}
	if w.watchers[uri] == nil {
		if len(w.watchers) >= maxWatched {
			return s.unreadable(ctx, uri, ledger.Invalid("uri", "too many addresses are watched; unsubscribe from one, or poll with the tools"))
		}
		w.watchers[uri] = map[*sdk.ServerSession]bool{}
		w.versions[uri] = version
	}
	if !w.watchers[uri][req.Session] {
		w.watchers[uri][req.Session] = true
		w.watchedCount[req.Session]++
	}
	if !w.awaitedSessions[req.Session] {
		w.awaitedSessions[req.Session] = true
		w.running.Go(func() {
			_ = req.Session.Wait() // however it ended
			w.forget(req.Session)
		})
	}
	if !w.polling {
		w.polling = true
		w.running.Go(s.pollWatched)
	}
	return nil
}

// limitListen holds a request that names several addresses to what as many requests
// might do.
func (s *Server) limitListen(next sdk.MethodHandler) sdk.MethodHandler {
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

// isFull reports whether a session may watch no further address. It is called with the
// lock held.
func (w *watches) isFull(uri string, ss *sdk.ServerSession) bool {
	return w.watchedCount[ss] >= maxSessionWatched && !w.watchers[uri][ss]
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
	if w.watchers[uri][ss] {
		delete(w.watchers[uri], ss)
		if w.watchedCount[ss]--; w.watchedCount[ss] == 0 {
			delete(w.watchedCount, ss)
		}
	}
	if len(w.watchers[uri]) == 0 {
		delete(w.watchers, uri)
		delete(w.versions, uri)
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
	delete(w.awaitedSessions, ss)
	for _, uri := range slices.Collect(maps.Keys(w.watchers)) {
		w.drop(uri, ss)
	}
}

// pollWatched tells clients what has changed, until nothing is watched any more or
// the server is closed.
func (s *Server) pollWatched() {
	pause := time.NewTimer(minWatchInterval)
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
			s.notifyIfChanged(uri)
		}
		next := max(minWatchInterval, watchPauseFactor*time.Since(began))
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
	if len(w.watchers) == 0 || s.serverCtx.Err() != nil {
		w.polling = false
		return nil
	}
	return slices.Collect(maps.Keys(w.watchers))
}

// notifyIfChanged notifies those who watch an address if it has changed.
func (s *Server) notifyIfChanged(uri string) {
	p := s.opts.Reads.Permit(s.tenant)
	version, err := s.version(reads.With(s.serverCtx, p), uri)
	p.Yield()
	if err != nil {
		return // it was there: the projections cannot answer now, and will change
	}
	w := s.watches
	w.mu.Lock()
	last, ok := w.versions[uri]
	if ok {
		w.versions[uri] = version
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
