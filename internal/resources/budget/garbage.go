package budget

import "sync"

// garbage counts the memory of returned heaps or requests that the garbage collector
// may not have freed yet, and decides by this count when to run the collector. Otherwise
// the collector would let the process grow to twice the memory in use. Running the
// collector after each return would slow down everything else on the server.
type garbage struct {
	collect func()        // runs the garbage collector
	cycles  func() uint64 // counts its completed cycles

	mu     sync.Mutex
	seen   uint64 // guarded by mu; cycles at the last look
	recent int64  // guarded by mu; bytes returned since the last cycle ended
	before int64  // guarded by mu; bytes returned before that, possibly after that cycle started
}

// add counts n bytes that nothing refers to any longer.
func (g *garbage) add(n int64) {
	if g.collect == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.subtractFreed()
	g.recent += n
}

// collectOver runs the collector if the garbage exceeds a quarter of the share, and garbage
// and used bytes together exceed the share. Concurrent callers wait for a running
// collection.
func (g *garbage) collectOver(used, share int64) {
	if g.collect == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.subtractFreed()
	if n := g.recent + g.before; n <= share/4 || used+n <= share {
		return
	}
	g.collect()
	g.seen, g.recent, g.before = g.cycles(), 0, 0
}

// subtractFreed subtracts the garbage that the collector has freed since the last look. The
// caller must hold mu.
func (g *garbage) subtractFreed() {
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
