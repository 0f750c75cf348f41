package mcp

import (
	"container/list"
	"fmt"
	"net/http"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/internal/web/access"
)

// A transport session over HTTP takes one goroutine and about 16 KiB while it is
// idle, and as much again at most for what its client sent with initialize:
// maxSessions of them take 64 MiB to 128 MiB.
const (
	// idleTimeout is when an unused transport session ends, and maxSessions how
	// many may be open. shortIdleTimeout replaces idleTimeout while more than half of
	// maxSessions are open.
	idleTimeout      = 30 * time.Minute
	shortIdleTimeout = 5 * time.Minute
	maxSessions      = 4096
	// maxTenantSessions and maxUserSessions are how many a tenant among several and
	// each of its principals may have.
	maxTenantSessions = maxSessions / 4
	maxUserSessions   = maxTenantSessions / 4
	// maxCalls bounds the requests of one session that are in progress: a client of
	// an early revision that disconnects leaves its requests running.
	maxCalls = 128
)

// transportSessions counts the transport sessions over HTTP that are open, in all, by tenant
// and by user. A request of a revision without sessions takes none. At a bound the
// least recently used session that is idle ends and gives its place to the next one.
type transportSessions struct {
	mu       sync.Mutex
	count    int
	tenants  map[string]*tenantSessions
	sessions map[string]*transportSession // by session id; without those that are ending
	sweptAt  time.Time                    // when sessions were last ended for the time they were idle
}

// tenantSessions are the places of a tenant.
type tenantSessions struct {
	count int
	users map[string]*userSessions
}

// userSessions are the places of a user.
type userSessions struct {
	count int
	idle  list.List // of *place: sessions without a request, least recently used first
}

func newTransportSessions() *transportSessions {
	return &transportSessions{tenants: map[string]*tenantSessions{}, sessions: map[string]*transportSession{}}
}

// transportSession is one counted session. It is released once; a nil place counts nothing.
type transportSession struct {
	parent *transportSessions
	tenant string
	user   string

	// The rest is guarded by of.mu.
	session   *sdk.ServerSession // nil until the client has initialized it
	id        string             // of session
	requests  int                // in progress: HTTP requests, streams included, and calls
	calls     int                // in progress, those of clients that have left included
	idle      *list.Element      // in the list of the user while requests is 0
	idleSince time.Time          // when the last request ended
	released  bool
}

// sessionLimitError is returned when a session cannot be opened. It is a refusal of a limit of
// the caller unless it concerns the whole server.
type sessionLimitError struct {
	message string
	status  int
}

func (e *sessionLimitError) Error() string { return e.message }

// admit counts one more session, with a request in progress. With shared set, the
// tenant and the user of id have a bound each beside the one of the server. It
// returns the sessions that give way, which the caller MUST close.
func (p *transportSessions) admit(id access.Identity, shared bool) (*transportSession, []*sdk.ServerSession, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ending := p.sweep(time.Now())
	tenant, user := id.Tenant, id.User()
	t := p.tenants[tenant]
	if t == nil {
		t = &tenantSessions{users: map[string]*userSessions{}}
	}
	u := t.users[user]
	if u == nil {
		u = &userSessions{}
	}
	var victim *transportSession
	switch {
	case shared && u.count >= maxUserSessions:
		if victim = u.leastRecentlyUsed(); victim == nil {
			return nil, ending, &sessionLimitError{fmt.Sprintf("the principal has %d MCP sessions with open requests, and more are refused; end sessions with DELETE, or try again in 30 seconds", maxUserSessions), http.StatusTooManyRequests}
		}
	case shared && t.count >= maxTenantSessions:
		if victim = t.victim(u.count); victim == nil {
			return nil, ending, &sessionLimitError{fmt.Sprintf("the tenant has %d MCP sessions open, and more are refused; end sessions with DELETE, or try again in 30 seconds", maxTenantSessions), http.StatusTooManyRequests}
		}
	case p.count >= maxSessions:
		if victim = p.victim(t.count); victim == nil {
			return nil, ending, &sessionLimitError{"no more connections now; try again in 30 seconds", http.StatusServiceUnavailable}
		}
	}
	if victim != nil {
		ending = append(ending, victim.session)
		victim.uncount()
	}
	// The victim may have been the last of its tenant or user.
	p.tenants[tenant], t.users[user] = t, u
	p.count++
	t.count++
	u.count++
	return &transportSession{parent: p, tenant: tenant, user: user, requests: 1}, ending, nil
}

// leastRecentlyUsed is the least recently used idle session of a user, or nil.
func (u *userSessions) leastRecentlyUsed() *transportSession {
	if e := u.idle.Front(); e != nil {
		return e.Value.(*transportSession)
	}
	return nil
}

// victim is the session of a tenant that gives way: of the user with the most
// sessions, as long as it has at least as many as the user that asks.
func (t *tenantSessions) victim(asking int) (victim *transportSession) {
	most := max(asking, 1)
	for _, u := range t.users {
		if one := u.leastRecentlyUsed(); one != nil && u.count >= most {
			victim, most = one, u.count
		}
	}
	return victim
}

// victim is the session of the server that gives way: of the tenant with the most
// sessions, as long as it has at least as many as the tenant that asks.
func (p *transportSessions) victim(asking int) (victim *transportSession) {
	most := max(asking, 1)
	for _, t := range p.tenants {
		if t.count < most {
			continue
		}
		if one := t.victim(0); one != nil {
			victim, most = one, t.count
		}
	}
	return victim
}

// sweep removes the sessions that were idle for shortIdleTimeout if more than half of all
// places are taken, and returns them. The caller must hold mu.
func (p *transportSessions) sweep(now time.Time) (ending []*sdk.ServerSession) {
	if p.count <= maxSessions/2 || now.Sub(p.sweptAt) < time.Second {
		return nil
	}
	p.sweptAt = now
	for _, t := range p.tenants {
		for _, u := range t.users {
			for one := u.leastRecentlyUsed(); one != nil && now.Sub(one.idleSince) >= shortIdleTimeout; one = u.leastRecentlyUsed() {
				ending = append(ending, one.session)
				one.uncount()
			}
		}
	}
	return ending
}

// attach keeps the place for a session until places.ended or leave.
func (l *transportSession) attach(ss *sdk.ServerSession) {
	id := ss.ID()
	l.parent.mu.Lock()
	defer l.parent.mu.Unlock()
	if l.session != nil || l.released {
		return
	}
	l.session, l.id = ss, id
	if id != "" {
		l.parent.sessions[id] = l
	}
}

// beginRequest counts a request of a session. It reports false for a session that gave way
// and is still closing. The caller MUST call done when the request has ended.
func (p *transportSessions) beginRequest(session string, id access.Identity) (done func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.sessions[session]
	if l == nil || !l.belongsTo(id) {
		return func() {}, true // the SDK answers
	}
	if l.released {
		return func() {}, false
	}
	l.requests++
	l.markBusy()
	return l.endRequest, true
}

// isForeign reports whether a session is that of another tenant or user.
func (p *transportSessions) isForeign(session string, id access.Identity) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.sessions[session]
	return l != nil && !l.belongsTo(id)
}

func (l *transportSession) belongsTo(id access.Identity) bool {
	return l.tenant == id.Tenant && l.user == id.User()
}

// markBusy takes the place from the list of those that may give way. The caller must
// hold mu.
func (l *transportSession) markBusy() {
	if l.idle != nil {
		l.parent.tenants[l.tenant].users[l.user].idle.Remove(l.idle)
		l.idle = nil
	}
}

// endRequest ends a request. It releases the place of a request that began no session.
func (l *transportSession) endRequest() {
	if l == nil {
		return
	}
	l.parent.mu.Lock()
	defer l.parent.mu.Unlock()
	l.requestEnded()
}

// requestEnded counts one request less. The caller must hold mu.
func (l *transportSession) requestEnded() {
	l.requests--
	switch {
	case l.released || l.requests > 0:
	case l.session == nil:
		l.uncount()
	default:
		l.idleSince = time.Now()
		l.idle = l.parent.tenants[l.tenant].users[l.user].idle.PushBack(l)
	}
}

// beginCall counts a request that is in progress whether its client waits or not. It
// reports false beyond the bound; else the caller MUST call the function.
func (l *transportSession) beginCall() (done func(), ok bool) {
	if l == nil {
		return func() {}, true
	}
	l.parent.mu.Lock()
	defer l.parent.mu.Unlock()
	if l.calls >= maxCalls {
		return nil, false
	}
	l.calls++
	l.requests++
	l.markBusy()
	return func() {
		l.parent.mu.Lock()
		defer l.parent.mu.Unlock()
		l.calls--
		l.requestEnded()
	}, true
}

// forget forgets a session that has ended, and releases its place.
func (p *transportSessions) forget(session string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.sessions[session]; l != nil {
		l.uncount()
		delete(p.sessions, session)
	}
}

// uncount gives the place back. The session stays known until it has ended. The caller
// must hold mu.
func (l *transportSession) uncount() {
	if l.released {
		return
	}
	l.markBusy()
	l.released = true
	p := l.parent
	p.count--
	t := p.tenants[l.tenant]
	if t.count--; t.count == 0 {
		delete(p.tenants, l.tenant)
	}
	u := t.users[l.user]
	if u.count--; u.count == 0 {
		delete(t.users, l.user)
	}
}

// close gives the place back when its connection has ended.
func (l *transportSession) close() {
	if l == nil {
		return
	}
	l.parent.mu.Lock()
	defer l.parent.mu.Unlock()
	l.uncount()
	delete(l.parent.sessions, l.id)
}
