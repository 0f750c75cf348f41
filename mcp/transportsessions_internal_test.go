package mcp

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/internal/web/access"
)

// openTransportSession counts a session of a principal. The session is idle unless busy
// is set. It returns the number of sessions to close.
func openTransportSession(t *testing.T, p *transportSessions, tenant, principal string, busy bool) (*transportSession, int) {
	t.Helper()
	l, ending, err := p.admit(access.Identity{Tenant: tenant, Principal: principal}, true)
	if err != nil {
		t.Fatalf("open a session of %s/%s: %v", tenant, principal, err)
	}
	l.attach(new(sdk.ServerSession))
	if !busy {
		l.endRequest()
	}
	return l, len(ending)
}

func refusedStatus(p *transportSessions, tenant, principal string) int {
	_, _, err := p.admit(access.Identity{Tenant: tenant, Principal: principal}, true)
	if full, ok := errors.AsType[*sessionLimitError](err); ok {
		return full.status
	}
	return 0
}

// A session with a request in progress is not closed, whether its client waits for the
// answer or not.
func TestBusySessionsStay(t *testing.T) {
	t.Parallel()
	p := newTransportSessions()
	var calls []func()
	for i := range maxUserSessions {
		l, _ := openTransportSession(t, p, "acme", "ada", i%2 == 0)
		if i%2 == 1 {
			done, ok := l.beginCall()
			if !ok {
				t.Fatal("a call is refused")
			}
			calls = append(calls, done)
		}
	}
	if status := refusedStatus(p, "acme", "ada"); status != http.StatusTooManyRequests {
		t.Errorf("beside busy sessions: %d, want 429", status)
	}
	calls[7]()
	if _, closed := openTransportSession(t, p, "acme", "ada", false); closed != 1 {
		t.Errorf("%d sessions are closed, want the one whose call has ended", closed)
	}
	if p.count != maxUserSessions {
		t.Errorf("%d sessions are counted, want %d", p.count, maxUserSessions)
	}
}

// At the limit, sessions of tenants with many sessions are closed in favor of tenants
// with few, and the counts stay correct.
func TestTenantsShareTheSessionLimit(t *testing.T) {
	t.Parallel()
	p := newTransportSessions()
	quiet, _ := openTransportSession(t, p, "quiet", "q", false)
	closed := 0
	for i := range 200 {
		for range 40 {
			_, n := openTransportSession(t, p, fmt.Sprintf("t%d", i), "u", false)
			closed += n
		}
	}
	if p.count != maxSessions || closed != 1+200*40-maxSessions {
		t.Errorf("%d sessions are open and %d are closed", p.count, closed)
	}
	if quiet.released {
		t.Error("the only session of a tenant is closed")
	}
	sum := 0
	for _, one := range p.tenants {
		for _, u := range one.users {
			sum += u.count
		}
	}
	if sum != p.count {
		t.Errorf("the users have %d sessions, the server %d", sum, p.count)
	}
	for one := p.victim(0); one != nil; one = p.victim(0) {
		one.close()
	}
	if p.count != 0 || len(p.tenants) != 0 {
		t.Errorf("%d sessions of %d tenants are counted", p.count, len(p.tenants))
	}
}

// While more than half of the limit is used, sessions are closed after shortIdleTimeout.
func TestIdleSessionsEndEarlier(t *testing.T) {
	t.Parallel()
	p := newTransportSessions()
	for i := range maxSessions/2 + 1 {
		l, _ := openTransportSession(t, p, fmt.Sprintf("t%d", i%100), "u", i < 10)
		l.idleSince = l.idleSince.Add(-shortIdleTimeout)
	}
	p.sweptAt = time.Time{}
	if _, closed := openTransportSession(t, p, "other", "u", false); closed != maxSessions/2+1-10 {
		t.Errorf("%d sessions ended, want all but 10 busy ones", closed)
	}
}

// The streams of a session and the messages of all sessions are bounded.
func TestSentEventsAreBounded(t *testing.T) {
	t.Parallel()
	var ended []string
	e := newSentEvents(func(session string) { ended = append(ended, session) })
	for _, session := range []string{"small", "large"} {
		if err := e.Open(t.Context(), session, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Append(t.Context(), "small", "", []byte("hello")); err != nil {
		t.Fatal(err)
	}
	message := bytes.Repeat([]byte("x"), 64<<10)
	for i := range 1000 {
		stream := fmt.Sprint(i)
		if err := errors.Join(e.Open(t.Context(), "large", stream), e.Append(t.Context(), "large", stream, message), e.Append(t.Context(), "large", "", message)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(e.sessions["large"].streams); n != maxSentStreams+1 || e.size > maxSentBytes {
		t.Errorf("%d streams and %d bytes are kept", n, e.size)
	}
	read := func(session, stream string, index int) (n int, err error) {
		for _, err = range e.After(t.Context(), session, stream, index) {
			if err == nil {
				n++
			}
		}
		return n, err
	}
	for _, c := range []struct {
		session, stream string
		index, want     int
		purged          bool
	}{{"small", "", -1, 1, false}, {"large", "999", -1, 1, false}, {"large", "0", -1, 0, true}, {"large", "", 0, 0, true}} {
		if n, err := read(c.session, c.stream, c.index); n != c.want || errors.Is(err, sdk.ErrEventsPurged) != c.purged {
			t.Errorf("stream %q of %s after %d: %d messages, %v", c.stream, c.session, c.index, n, err)
		}
	}
	// A client that opens the standalone stream again finds it, also after its messages were
	// dropped.
	if _, err := read("large", "", -1); err != nil {
		t.Errorf("the standalone stream from its start: %v", err)
	}
	if err := e.SessionClosed(t.Context(), "large"); err != nil || len(ended) != 1 || e.size > 100 {
		t.Errorf("after its end: %v, %v, %d bytes", err, ended, e.size)
	}
}
