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

// An idle transport session over HTTP takes one goroutine and about 16 KiB, and at most
// 16 KiB more for the params of initialize. So maxSessions of them take 64 MiB to 128
// MiB.
const (
	// idleTimeout ends an unused transport session. maxSessions bounds the open ones.
	// shortIdleTimeout replaces idleTimeout while more than half of maxSessions are open.
	idleTimeout      = 30 * time.Minute
	shortIdleTimeout = 5 * time.Minute
	maxSessions      = 4096
	// maxTenantSessions and maxUserSessions bound the sessions of one tenant and of one
	// principal. They apply only if the server checks tokens.
	maxTenantSessions = maxSessions / 4
	maxUserSessions   = maxTenantSessions / 4
	// maxCalls bounds the requests of one session in progress. Requests of a client with an
	// early revision continue after it disconnects.
	maxCalls = 128
)

// transportSessions counts the open transport sessions over HTTP: all, by tenant, and by
// user. Requests of revisions without sessions do not count. At a limit, the least
// recently used idle session is closed in favor of the new one.
type transportSessions struct {
	mu       sync.Mutex
	count    int
	tenants  map[string]*tenantSessions
	sessions map[string]*transportSession // by session id, including those being closed
	sweptAt  time.Time                    // time of the last sweep
}

// tenantSessions counts the sessions of a tenant.
type tenantSessions struct {
	count int
	users map[string]*userSessions
}

// userSessions counts the sessions of a user.
type userSessions struct {
	count int
	idle  list.List // of *transportSession: those without a request, least recently used first
}

func newTransportSessions() *transportSessions {
	return &transportSessions{tenants: map[string]*tenantSessions{}, sessions: map[string]*transportSession{}}
}

// transportSession is one counted session. uncount has an effect only once. A nil
// transportSession counts nothing.
type transportSession struct {
	parent *transportSessions
	tenant string
	user   string

	// The following fields are guarded by parent.mu.
	session   *sdk.ServerSession // nil until the client has initialized it
	id        string             // of session
	requests  int                // in progress: HTTP requests, including streams, and calls
	calls     int                // in progress, including those of disconnected clients
	idle      *list.Element      // in the user's list while requests is 0
	idleSince time.Time          // end of the last request
	released  bool
}

// sessionLimitError is returned if a session cannot be opened. status distinguishes a limit
// of the caller from a limit of the server.
type sessionLimitError struct {
	message string
	status  int
}

func (e *sessionLimitError) Error() string { return e.message }

// admit counts a new session, with one request in progress. If shared is set, the limits
// of its tenant and user apply besides that of the server. admit returns the sessions to
// close, also with an error; the caller MUST close them.
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
	// The closed session may have been the last of its tenant or user.
	p.tenants[tenant], t.users[user] = t, u
	p.count++
	t.count++
	u.count++
	return &transportSession{parent: p, tenant: tenant, user: user, requests: 1}, ending, nil
}

// leastRecentlyUsed returns the session of a user that has been idle for the longest
// time, or nil.
func (u *userSessions) leastRecentlyUsed() *transportSession {
	if e := u.idle.Front(); e != nil {
		return e.Value.(*transportSession)
	}
	return nil
}

// victim returns the session of the tenant to close so that a user can open another one.
// It is the least recently used idle session of the user with the most sessions. asking is
// the number of sessions that the opening user has. If every user with an idle session has
// fewer than that, victim returns nil.
func (t *tenantSessions) victim(asking int) (victim *transportSession) {
	most := max(asking, 1)
	for _, u := range t.users {
		if one := u.leastRecentlyUsed(); one != nil && u.count >= most {
			victim, most = one, u.count
		}
	}
	return victim
}

// victim returns the session of the server to close so that a tenant can open another one.
// It is an idle session of the tenant with the most sessions. asking is the number of
// sessions that the opening tenant has. If every tenant with an idle session has fewer
// than that, victim returns nil.
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

// sweep uncounts and returns the sessions that have been idle for shortIdleTimeout if
// more than half of maxSessions are open. It does so at most once a second. The caller
// must hold mu.
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

// attach sets the SDK's session that l counts. It does nothing if l has one or is no
// longer counted.
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

// beginRequest counts a request of a session. It reports false for a session that is
// being closed. The caller MUST call done when the request has ended.
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

// isForeign reports whether a session belongs to another tenant or user.
func (p *transportSessions) isForeign(session string, id access.Identity) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.sessions[session]
	return l != nil && !l.belongsTo(id)
}

func (l *transportSession) belongsTo(id access.Identity) bool {
	return l.tenant == id.Tenant && l.user == id.User()
}

// markBusy removes the session from the list of idle sessions. The caller must hold mu.
func (l *transportSession) markBusy() {
	if l.idle != nil {
		l.parent.tenants[l.tenant].users[l.user].idle.Remove(l.idle)
		l.idle = nil
	}
}

// endRequest ends a request. It uncounts the session of a request that opened none.
func (l *transportSession) endRequest() {
	if l == nil {
		return
	}
	l.parent.mu.Lock()
	defer l.parent.mu.Unlock()
	l.requestEnded()
}

// requestEnded uncounts a request. The caller must hold mu.
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

// beginCall counts a call, which continues if its client disconnects. It reports false
// beyond maxCalls. Otherwise the caller MUST call done when the call has ended.
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

// forget uncounts and deletes a session that has ended.
func (p *transportSessions) forget(session string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.sessions[session]; l != nil {
		l.uncount()
		delete(p.sessions, session)
	}
}

// uncount stops counting the session. The id stays in parent.sessions until the session
// has ended. The caller must hold mu.
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

// close uncounts and deletes the session when its connection has ended.
func (l *transportSession) close() {
	if l == nil {
		return
	}
	l.parent.mu.Lock()
	defer l.parent.mu.Unlock()
	l.uncount()
	delete(l.parent.sessions, l.id)
}
