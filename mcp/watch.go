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
	// maxWatched bounds the watched addresses of all clients of a tenant.
	maxWatched = 1024
	// maxSessionWatched bounds the watched addresses of one session.
	maxSessionWatched = 100
	// minWatchInterval is the minimum time between two checks of watched addresses, so that
	// a run with a thousand lines a second does not cause a thousand notifications.
	minWatchInterval = 100 * time.Millisecond
	// watchPauseFactor limits the time spent on checks: a pause is at least this many times
	// as long as the check before it.
	watchPauseFactor = 10
)

// watches holds the addresses that clients watch. While there are any, one goroutine
// checks them after each commit of the projections.
type watches struct {
	mu              sync.Mutex
	versions        map[string]string                      // by address: version at the last check
	watchers        map[string]map[*sdk.ServerSession]bool // by address
	watchedCount    map[*sdk.ServerSession]int             // watched addresses of each session
	awaitedSessions map[*sdk.ServerSession]bool            // sessions whose end a goroutine awaits
	polling         bool                                   // pollWatched runs
	running         sync.WaitGroup
}

func newWatches() *watches {
	return &watches{versions: map[string]string{}, watchers: map[string]map[*sdk.ServerSession]bool{}, watchedCount: map[*sdk.ServerSession]int{}, awaitedSessions: map[*sdk.ServerSession]bool{}}
}

// subscribe starts watching an address for a session.
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
		return s.resourceError(ctx, uri, tooMany)
	}
	version, err := s.version(ctx, uri)
	if err != nil {
		return s.resourceError(ctx, uri, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.serverCtx.Err() != nil {
		return errClosing
	}
	if w.isFull(uri, req.Session) { // concurrent requests of the same session were counted meanwhile
		return s.resourceError(ctx, uri, tooMany)
	}
	if w.watchers[uri] == nil {
		if len(w.watchers) >= maxWatched {
			return s.resourceError(ctx, uri, ledger.Invalid("uri", "too many addresses are watched; unsubscribe from one, or poll with the tools"))
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
			_ = req.Session.Wait() // the error says how it ended
			w.forget(req.Session)
		})
	}
	if !w.polling {
		w.polling = true
		w.running.Go(s.pollWatched)
	}
	return nil
}

// limitListen counts a subscriptions/listen against the rate limit as one request per
// address.
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

// isFull reports whether a session may watch no further address. The caller must hold
// mu.
func (w *watches) isFull(uri string, ss *sdk.ServerSession) bool {
	return w.watchedCount[ss] >= maxSessionWatched && !w.watchers[uri][ss]
}

// unsubscribe stops watching an address for a session.
func (s *Server) unsubscribe(_ context.Context, req *sdk.UnsubscribeRequest) error {
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	s.watches.drop(req.Params.URI, req.Session)
	return nil
}

// drop stops watching an address for a session. The caller must hold mu.
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

// wait waits for the goroutines that w.running counts. serverCtx must be done: a subscribe
// that locks mu after that starts no goroutine.
func (w *watches) wait() {
	w.mu.Lock()
	w.mu.Unlock() //nolint:staticcheck // waits for a subscribe in progress
	w.running.Wait()
}

// forget drops all addresses of a session that has ended.
func (w *watches) forget(ss *sdk.ServerSession) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.awaitedSessions, ss)
	for _, uri := range slices.Collect(maps.Keys(w.watchers)) {
		w.drop(uri, ss)
	}
}

// pollWatched notifies clients of changes until no address is watched or the server is
// closed.
func (s *Server) pollWatched() {
	pause := time.NewTimer(minWatchInterval)
	defer pause.Stop()
	for {
		// The pause comes first because the SDK registers a subscriber only after subscribe has
		// returned.
		select {
		case <-pause.C:
		case <-s.serverCtx.Done():
		}
		changed := s.opts.Queries.NextCommit() // before the checks, so that a change during them is not missed
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
		case <-changed: // if no address is watched any more, the next round ends the loop
		case <-s.serverCtx.Done():
		}
		pause.Reset(next)
	}
}

// watched returns the watched addresses. It returns none, and marks polling as ended, if
// there are none or the server is closed.
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

// notifyIfChanged notifies the watchers of an address if its version has changed.
func (s *Server) notifyIfChanged(uri string) {
	p := s.opts.Reads.Permit(s.tenant)
	version, err := s.version(reads.With(s.serverCtx, p), uri)
	p.Yield()
	if err != nil {
		return // the object existed, so the projections cannot answer now; a commit follows
	}
	w := s.watches
	w.mu.Lock()
	last, ok := w.versions[uri]
	if ok {
		w.versions[uri] = version
	}
	w.mu.Unlock()
	if ok && last != version {
		// A client that cannot be reached is dropped when its session ends.
		_ = s.sdk.ResourceUpdated(s.serverCtx, &sdk.ResourceUpdatedNotificationParams{URI: uri})
	}
}

// version returns a text that changes whenever the object at an address does.
func (s *Server) version(ctx context.Context, uri string) (string, error) {
	for _, r := range s.resources() {
		if name, ok := r.nameIn(uri); ok {
			return r.version(ctx, name)
		}
	}
	return "", events.ErrNotFound
}
