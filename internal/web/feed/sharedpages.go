package feed

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// pageShareTime is the time for which a page is shared after it was read. Clients that
	// start together ask for the same pages within a few milliseconds.
	pageShareTime = time.Second
	// maxShared bounds the number of shared pages. A page takes about 256 KiB.
	maxShared = 64
)

// ErrNothingStored is returned by the load function of a page that would be empty. Such
// a page is not shared, because it may not be empty at the next call.
var ErrNothingStored = errors.New("no events or lines are stored there")

// errNotLoaded is the error of a page until it is loaded.
var errNotLoaded = errors.New("the page is not loaded")

// sharedPages loads each page once for the clients that ask for it at about the same
// time. It is safe for concurrent use.
type sharedPages[K comparable, P any] struct {
	mu    sync.Mutex
	pages map[K]*sharedPage[P] // guarded by mu
}

type sharedPage[P any] struct {
	loaded chan struct{} // closed when page and err are valid
	page   P
	err    error
}

// get returns a page, loaded with load if it is not shared yet. The caller MUST NOT
// modify the page. After an error of load, the next caller loads the page again.
func (s *sharedPages[K, P]) get(ctx context.Context, key K, load func() (P, error)) (P, error) {
	for {
		s.mu.Lock()
		p := s.pages[key]
		if p == nil {
			p = &sharedPage[P]{loaded: make(chan struct{}), err: errNotLoaded}
			if s.pages == nil {
				s.pages = map[K]*sharedPage[P]{}
			}
			s.pages[key] = p
			s.mu.Unlock()
			s.load(key, p, load)
			return p.page, p.err
		}
		s.mu.Unlock()
		select {
		case <-p.loaded:
		case <-ctx.Done():
			var none P
			return none, context.Cause(ctx)
		}
		if p.err == nil {
			return p.page, nil
		}
	}
}

// load sets a page, or its error. If load panics, the page keeps the error errNotLoaded, with
// which the callers that wait for it load it themselves.
func (s *sharedPages[K, P]) load(key K, p *sharedPage[P], load func() (P, error)) {
	defer close(p.loaded)
	defer s.keep(key, p)
	p.page, p.err = load()
}

// forget drops all pages, also those that are being loaded.
func (s *sharedPages[K, P]) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages = nil
}

// keep removes a loaded page after pageShareTime, or at once if it must not be shared.
func (s *sharedPages[K, P]) keep(key K, p *sharedPage[P]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.err != nil || len(s.pages) > maxShared {
		delete(s.pages, key)
		return
	}
	time.AfterFunc(pageShareTime, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.pages, key)
	})
}
