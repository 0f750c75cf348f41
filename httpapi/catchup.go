package httpapi

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// catchUp admits readers of stored events and lines one page at a time: one reader
// of each tenant, and few in all. Reading and encoding history costs processor time
// that runs need, and a tenant with many readers must not delay those of another
// one.
//
// It is safe for concurrent use.
type catchUp struct {
	all *semaphore.Weighted

	mu      sync.Mutex
	readers int                       // reading or waiting; guarded by mu
	tenants map[string]*tenantReaders // guarded by mu
}

// tenantReaders are the readers of a tenant: one reads, the others wait.
type tenantReaders struct {
	one   *semaphore.Weighted
	users int
}

func newCatchUp(readers int) *catchUp {
	return &catchUp{all: semaphore.NewWeighted(int64(readers)), tenants: map[string]*tenantReaders{}}
}

// maxCatchUpPause bounds the pause after a page. A page takes some milliseconds; one
// that took longer waited for memory, for a disk or for the processor.
const maxCatchUpPause = 100 * time.Millisecond

// enter waits until a reader of a tenant may read a page. The caller MUST call
// leave when it has the page. If others wait then, the next one is admitted after
// as long a time as the page took, maxCatchUpPause at most: a crowd of readers leaves
// half the time to runs.
func (c *catchUp) enter(ctx context.Context, tenant string) (leave func(), err error) {
	t := c.join(tenant)
	if err := t.one.Acquire(ctx, 1); err != nil {
		c.quit(tenant, t)
		return nil, context.Cause(ctx)
	}
	if err := c.all.Acquire(ctx, 1); err != nil {
		t.one.Release(1)
		c.quit(tenant, t)
		return nil, context.Cause(ctx)
	}
	start := time.Now()
	return func() {
		release := func() {
			c.all.Release(1)
			t.one.Release(1)
		}
		if c.quit(tenant, t) > 0 {
			time.AfterFunc(min(time.Since(start), maxCatchUpPause), release)
			return
		}
		release()
	}, nil
}

func (c *catchUp) join(tenant string) *tenantReaders {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tenants[tenant]
	if t == nil {
		t = &tenantReaders{one: semaphore.NewWeighted(1)}
		c.tenants[tenant] = t
	}
	t.users++
	c.readers++
	return t
}

// quit returns how many other readers there are.
func (c *catchUp) quit(tenant string, t *tenantReaders) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.users--; t.users == 0 {
		delete(c.tenants, tenant)
	}
	c.readers--
	return c.readers
}

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
