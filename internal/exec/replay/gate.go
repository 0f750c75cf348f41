package replay

import (
	"context"
	"slices"
	"sync"

	"daybook/ledger"
)

// maxWaiting is the maximum number of replays and lists of a tenant that wait.
const maxWaiting = 256

// Gate limits the number of replays, and of lists of the globals of heaps, that run at a time. Tenants take free places in turn.
// It is safe for concurrent use.
type Gate struct {
	mu      sync.Mutex // guards the fields below
	free    int
	turns   []string                   // tenants with waiting replays, the next one first
	waiting map[string][]chan struct{} // by tenant; a channel is closed when its replay gets a place
}

// NewGate returns a gate for a number of replays.
func NewGate(places int) *Gate {
	return &Gate{free: max(places, 1), waiting: map[string][]chan struct{}{}}
}

// Enter waits for a place. The caller MUST call leave once. The error is CodeExhausted if
// too many replays of the tenant wait, and otherwise that of ctx.
func (g *Gate) Enter(ctx context.Context, tenant string) (leave func(), err error) {
	g.mu.Lock()
	if g.free > 0 {
		g.free--
		g.mu.Unlock()
		return g.leave, nil
	}
	if len(g.waiting[tenant]) >= maxWaiting {
		g.mu.Unlock()
		return nil, &ledger.Error{Code: ledger.CodeExhausted, Message: "too many replays and lists of globals of this tenant wait; try again when some have ended"}
	}
	place := make(chan struct{})
	if len(g.waiting[tenant]) == 0 {
		g.turns = append(g.turns, tenant)
	}
	g.waiting[tenant] = append(g.waiting[tenant], place)
	g.mu.Unlock()
	select {
	case <-place:
		return g.leave, nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	i := slices.Index(g.waiting[tenant], place)
	if i >= 0 {
		g.remove(tenant, i)
	}
	g.mu.Unlock()
	if i < 0 {
		g.leave() // it got the place meanwhile
	}
	return nil, context.Cause(ctx)
}

// leave gives the place to the next replay of the tenant whose turn it is.
func (g *Gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.turns) == 0 {
		g.free++
		return
	}
	tenant := g.turns[0]
	close(g.waiting[tenant][0])
	g.remove(tenant, 0)
	if len(g.waiting[tenant]) > 0 { // its next turn comes after those of the others
		g.turns = append(g.turns[1:], tenant)
	}
}

// remove removes a waiting replay. The caller must hold mu.
func (g *Gate) remove(tenant string, i int) {
	g.waiting[tenant] = slices.Delete(g.waiting[tenant], i, i+1)
	if len(g.waiting[tenant]) == 0 {
		delete(g.waiting, tenant)
		g.turns = slices.DeleteFunc(g.turns, func(t string) bool { return t == tenant })
	}
}
