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
	// idleSession is when an unused transport session ends, and maxSessions how
	// many may be open. shortIdle replaces idleSession while more than half of
	// maxSessions are open.
	idleSession = 30 * time.Minute
	shortIdle   = 5 * time.Minute
	maxSessions = 4096
	// maxTenantSessions and maxUserSessions are how many a tenant among several and
	// each of its principals may have.
	maxTenantSessions = maxSessions / 4
	maxUserSessions   = maxTenantSessions / 4
	// maxCalls bounds the requests of one session that are in progress: a client of
	// an early revision that disconnects leaves its requests running.
	maxCalls = 128
)

// places counts the transport sessions over HTTP that are open, in all, by tenant
// and by user. A request of a revision without sessions takes none. At a bound the
// least recently used session that is idle ends and gives its place to the next one.
type places struct {
	mu       sync.Mutex
	all      int
	tenants  map[string]*tenantPlaces
	sessions map[string]*place // by session id; without those that are ending
	swept    time.Time         // when sessions were last ended for the time they were idle
}

// tenantPlaces are the places of a tenant.
type tenantPlaces struct {
	count int
	users map[string]*userPlaces
}

// userPlaces are the places of a user.
type userPlaces struct {
	count int
	idle  list.List // of *place: sessions without a request, least recently used first
}

func newPlaces() *places {
	return &places{tenants: map[string]*tenantPlaces{}, sessions: map[string]*place{}}
}

// place is one counted session. It is released once; a nil place counts nothing.
type place struct {
	of     *places
	tenant string
	user   string

	// The rest is guarded by of.mu.
	session  *sdk.ServerSession // nil until the client has initialized it
	id       string             // of session
	requests int                // in progress: HTTP requests, streams included, and calls
	calls    int                // in progress, those of clients that have left included
	idle     *list.Element      // in the list of the user while requests is 0
	since    time.Time          // when the last request ended
	released bool
}

// errFull is returned when a session cannot be opened. It is a refusal of a limit of
// the caller unless it concerns the whole server.
type errFull struct {
	message string
	status  int
}

func (e *errFull) Error() string { return e.message }

// take counts one more session, with a request in progress. With shared set, the
// tenant and the user of id have a bound each beside the one of the server. It
// returns the sessions that give way, which the caller MUST close.
func (p *places) take(id access.Identity, shared bool) (*place, []*sdk.ServerSession, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ending := p.sweep(time.Now())
	tenant, user := id.Tenant, id.User()
	t := p.tenants[tenant]
	if t == nil {
		t = &tenantPlaces{users: map[string]*userPlaces{}}
	}
	u := t.users[user]
	if u == nil {
		u = &userPlaces{}
	}
	var victim *place
	switch {
	case shared && u.count >= maxUserSessions:
		if victim = u.oldest(); victim == nil {
			return nil, ending, &errFull{fmt.Sprintf("the principal has %d MCP sessions with open requests, and more are refused; end sessions with DELETE, or try again in 30 seconds", maxUserSessions), http.StatusTooManyRequests}
		}
	case shared && t.count >= maxTenantSessions:
		if victim = t.oldest(u.count); victim == nil {
			return nil, ending, &errFull{fmt.Sprintf("the tenant has %d MCP sessions open, and more are refused; end sessions with DELETE, or try again in 30 seconds", maxTenantSessions), http.StatusTooManyRequests}
		}
	case p.all >= maxSessions:
		if victim = p.oldest(t.count); victim == nil {
			return nil, ending, &errFull{"no more connections now; try again in 30 seconds", http.StatusServiceUnavailable}
		}
	}
	if victim != nil {
		ending = append(ending, victim.session)
		victim.leave()
	}
	// The victim may have been the last of its tenant or user.
	p.tenants[tenant], t.users[user] = t, u
	p.all++
	t.count++
	u.count++
	return &place{of: p, tenant: tenant, user: user, requests: 1}, ending, nil
}

// oldest is the least recently used idle session of a user, or nil.
func (u *userPlaces) oldest() *place {
	if e := u.idle.Front(); e != nil {
		return e.Value.(*place)
	}
	return nil
}

// oldest is the session of a tenant that gives way: of the user with the most
// sessions, as long as it has at least as many as the user that asks.
func (t *tenantPlaces) oldest(asking int) (victim *place) {
	most := max(asking, 1)
	for _, u := range t.users {
		if one := u.oldest(); one != nil && u.count >= most {
			victim, most = one, u.count
		}
	}
	return victim
}

// oldest is the session of the server that gives way: of the tenant with the most
// sessions, as long as it has at least as many as the tenant that asks.
func (p *places) oldest(asking int) (victim *place) {
	most := max(asking, 1)
	for _, t := range p.tenants {
		if t.count < most {
			continue
		}
		if one := t.oldest(0); one != nil {
			victim, most = one, t.count
		}
	}
	return victim
}

// sweep removes the sessions that were idle for shortIdle if more than half of all
// places are taken, and returns them. The caller must hold mu.
func (p *places) sweep(now time.Time) (ending []*sdk.ServerSession) {
	if p.all <= maxSessions/2 || now.Sub(p.swept) < time.Second {
		return nil
	}
	p.swept = now
	for _, t := range p.tenants {
		for _, u := range t.users {
			for one := u.oldest(); one != nil && now.Sub(one.since) >= shortIdle; one = u.oldest() {
				ending = append(ending, one.session)
				one.leave()
			}
		}
	}
	return ending
}

// hold keeps the place for a session until places.ended or leave.
func (l *place) hold(ss *sdk.ServerSession) {
	id := ss.ID()
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	if l.session != nil || l.released {
		return
	}
	l.session, l.id = ss, id
	if id != "" {
		l.of.sessions[id] = l
	}
}

// begin counts a request of a session. It reports false for a session that gave way
// and is still closing. The caller MUST call done when the request has ended.
func (p *places) begin(session string, id access.Identity) (done func(), ok bool) {
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
	l.busy()
	return l.done, true
}

// foreign reports whether a session is that of another tenant or user.
func (p *places) foreign(session string, id access.Identity) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.sessions[session]
	return l != nil && !l.belongsTo(id)
}

func (l *place) belongsTo(id access.Identity) bool {
	return l.tenant == id.Tenant && l.user == id.User()
}

// busy takes the place from the list of those that may give way. The caller must
// hold mu.
func (l *place) busy() {
	if l.idle != nil {
		l.of.tenants[l.tenant].users[l.user].idle.Remove(l.idle)
		l.idle = nil
	}
}

// done ends a request. It releases the place of a request that began no session.
func (l *place) done() {
	if l == nil {
		return
	}
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	l.less()
}

// less counts one request less. The caller must hold mu.
func (l *place) less() {
	l.requests--
	switch {
	case l.released || l.requests > 0:
	case l.session == nil:
		l.leave()
	default:
		l.since = time.Now()
		l.idle = l.of.tenants[l.tenant].users[l.user].idle.PushBack(l)
	}
}

// call counts a request that is in progress whether its client waits or not. It
// reports false beyond the bound; else the caller MUST call the function.
func (l *place) call() (done func(), ok bool) {
	if l == nil {
		return func() {}, true
	}
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	if l.calls >= maxCalls {
		return nil, false
	}
	l.calls++
	l.requests++
	l.busy()
	return func() {
		l.of.mu.Lock()
		defer l.of.mu.Unlock()
		l.calls--
		l.less()
	}, true
}

// ended forgets a session that has ended, and releases its place.
func (p *places) ended(session string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.sessions[session]; l != nil {
		l.leave()
		delete(p.sessions, session)
	}
}

// leave gives the place back. The session stays known until it has ended. The caller
// must hold mu.
func (l *place) leave() {
	if l.released {
		return
	}
	l.busy()
	l.released = true
	p := l.of
	p.all--
	t := p.tenants[l.tenant]
	if t.count--; t.count == 0 {
		delete(p.tenants, l.tenant)
	}
	u := t.users[l.user]
	if u.count--; u.count == 0 {
		delete(t.users, l.user)
	}
}

// release gives the place back when its connection has ended.
func (l *place) release() {
	if l == nil {
		return
	}
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	l.leave()
	delete(l.of.sessions, l.id)
}
