package mcp

import (
	"errors"
	"fmt"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/internal/access"
)

// places counts the transport sessions over HTTP that are open, in all, by tenant
// and by user. A request of a revision without sessions takes none.
type places struct {
	mu       sync.Mutex
	all      int
	byTenant map[string]int
	byUser   map[string]int
	closed   bool           // no goroutine is started any more
	running  sync.WaitGroup // goroutines that wait for the end of a session
}

func newPlaces() *places { return &places{byTenant: map[string]int{}, byUser: map[string]int{}} }

// place is one counted session. It is released once; a nil place counts nothing.
type place struct {
	of     *places
	id     access.Identity
	mu     sync.Mutex
	held   bool // by a session that releases it at its end
	unheld bool // released
}

// take counts one more session. With shared set, the tenant and the user of id
// have a bound each beside the one of the server.
func (p *places) take(id access.Identity, shared bool) (*place, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.all >= maxSessions:
		return nil, errors.New("no more connections now; try again in 30 seconds")
	case shared && p.byTenant[id.Tenant] >= maxTenantSessions:
		return nil, fmt.Errorf("the tenant has %d MCP sessions open, and more are refused; end sessions with DELETE, or try again in 30 seconds", maxTenantSessions)
	case shared && p.byUser[id.User()] >= maxUserSessions:
		return nil, fmt.Errorf("the principal has %d MCP sessions open, and more are refused; end sessions with DELETE, or try again in 30 seconds", maxUserSessions)
	}
	p.all++
	p.byTenant[id.Tenant]++
	p.byUser[id.User()]++
	return &place{of: p, id: id}, nil
}

// hold keeps the place until a session has ended.
func (l *place) hold(ss *sdk.ServerSession) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	if l.held || l.unheld || l.of.closed {
		return
	}
	l.held = true
	l.of.running.Go(func() {
		_ = ss.Wait() // however it ended
		l.release()
	})
}

// wait waits for the goroutines. The sessions must have been closed.
func (p *places) wait() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.running.Wait()
}

// unlessHeld releases the place of a request that began no session.
func (l *place) unlessHeld() {
	l.mu.Lock()
	held := l.held
	l.mu.Unlock()
	if !held {
		l.release()
	}
}

// release gives the place back.
func (l *place) release() {
	if l == nil {
		return
	}
	l.mu.Lock()
	done := l.unheld
	l.unheld = true
	l.mu.Unlock()
	if done {
		return
	}
	p := l.of
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all--
	for _, n := range []struct {
		count map[string]int
		key   string
	}{{p.byTenant, l.id.Tenant}, {p.byUser, l.id.User()}} {
		if n.count[n.key]--; n.count[n.key] == 0 {
			delete(n.count, n.key)
		}
	}
}
