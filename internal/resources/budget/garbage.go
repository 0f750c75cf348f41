package budget

import "sync"

// garbage counts the memory of heaps or requests that were given back and that the
// garbage collector may not have freed yet. Left alone, the collector lets the process
// grow to twice what is in use. Running it after each of them costs everything else on
// the server.
type garbage struct {
	collect func()        // runs the garbage collector
	cycles  func() uint64 // counts its completed cycles

	mu     sync.Mutex
	seen   uint64 // guarded by mu; cycles at the last look
	recent int64  // guarded by mu; bytes given back since the last cycle ended
	before int64  // guarded by mu; bytes given back before that, maybe after it began
}

// add notes n bytes that nothing refers to any more.
func (g *garbage) add(n int64) {
	if g.collect == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.look()
	g.recent += n
}

// bound runs the collector if the garbage is more than a quarter of the share, and does
// not fit into the share beside what is used. Callers wait for a collection that runs.
func (g *garbage) bound(used, share int64) {
	if g.collect == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.look()
	if n := g.recent + g.before; n <= share/4 || used+n <= share {
		return
	}
	g.collect()
	g.seen, g.recent, g.before = g.cycles(), 0, 0
}

// look forgets garbage that the collector has freed meanwhile. The caller must hold mu.
func (g *garbage) look() {
	now := g.cycles()
	switch now - g.seen {
	case 0:
		return
	case 1:
		g.before, g.recent = g.recent, 0
	default:
		g.before, g.recent = 0, 0
	}
	g.seen = now
}
