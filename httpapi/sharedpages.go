package httpapi

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// pageLife is how long a page is shared after it was read. Clients that were
	// started together ask for the same pages within some milliseconds.
	pageLife = time.Second
	// maxShared bounds the pages that are kept that long; a page takes about a
	// quarter of a MiB.
	maxShared = 64
)

// errNothingStored is returned by the load of a page that would be empty: it is not
// shared, because there may be something by the time of the next call.
var errNothingStored = errors.New("nothing is stored there")

// sharedPages loads each page once for the clients that ask for it at about the
// same time. It is safe for concurrent use.
type sharedPages[K comparable, P any] struct {
	mu    sync.Mutex
	pages map[K]*sharedPage[P] // guarded by mu
}

type sharedPage[P any] struct {
	loaded chan struct{} // closed when page and err are valid
	page   P
	err    error
}

// get returns a page, which is shared and MUST NOT be modified. A load that fails
// is repeated by the next caller.
func (s *sharedPages[K, P]) get(ctx context.Context, key K, load func() (P, error)) (P, error) {
	for {
		s.mu.Lock()
		p := s.pages[key]
		if p == nil {
			p = &sharedPage[P]{loaded: make(chan struct{})}
			if s.pages == nil {
				s.pages = map[K]*sharedPage[P]{}
			}
			s.pages[key] = p
			s.mu.Unlock()
			p.page, p.err = load()
			s.keep(key, p)
			close(p.loaded)
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

// keep has a page that was loaded forgotten, later or now.
func (s *sharedPages[K, P]) keep(key K, p *sharedPage[P]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.err != nil || len(s.pages) > maxShared {
		delete(s.pages, key)
		return
	}
	time.AfterFunc(pageLife, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.pages, key)
	})
}
