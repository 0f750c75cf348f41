package fetcher

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/oauth2"
)

const (
	// tokenTimeout limits the requests for one token.
	tokenTimeout = 10 * time.Second
	// tokenPause is the time after a failure in which the token endpoint is not asked again,
	// and the time between two tokens that are dropped because a server refused them.
	tokenPause = 5 * time.Second
	// maxUnusedTokens is the number of tokens that are hidden although no fetch uses them:
	// earlier ones may still be valid.
	maxUnusedTokens = 8
)

// tokenSource has the access tokens of one rule, for the fetches of all tenants. It asks for
// one at a time. It is safe for concurrent use.
type tokenSource struct {
	rule    HeaderRule // with OAuth
	client  tokenClient
	timeout time.Duration
	logger  *slog.Logger
	now     func() time.Time

	mu sync.Mutex // guards all below
	// current is the newest token; nil if there is none, or a server refused it.
	current *accessToken
	refresh string           // the refresh token, or empty
	style   oauth2.AuthStyle // where the token endpoint takes the credentials, if that is known
	flight  *tokenFlight     // nil if no token is being asked for
	// failure is the last one if no token came later, and failedAt its time.
	failure  error
	failedAt time.Time
	// droppedAt is the time when the last token was dropped.
	droppedAt time.Time
	// issued are the tokens to hide, oldest first.
	issued []*accessToken
}

// accessToken is a token from a token endpoint.
type accessToken struct {
	value string // of the header
	// renewAt is the time from which another token is asked for.
	renewAt, expiresAt time.Time
	uses               int // fetches that have it; guarded by tokenSource.mu
}

// tokenFlight is a request for a token that fetches wait for.
type tokenFlight struct {
	cancel  context.CancelFunc
	done    chan struct{} // closed when token and err are set
	waiters int           // guarded by tokenSource.mu
	token   *accessToken
	err     error
}

// errNoTokenYet is returned if the context ends before there is a token.
var errNoTokenYet = errors.New("the access token did not come")

func newTokenSource(r HeaderRule, o Options) *tokenSource {
	timeout := min(tokenTimeout, o.Timeout/2) // so that a fetch can say why it fails, or use a token that is valid still
	return &tokenSource{rule: r, client: newTokenClient(*r.OAuth, o, timeout), timeout: timeout, logger: o.Logger, now: time.Now}
}

// take returns a valid token. It waits for one if there is none. The caller MUST call release.
func (s *tokenSource) take(ctx context.Context) (*accessToken, error) {
	s.mu.Lock()
	t, err := s.atHand()
	if t != nil || err != nil {
		s.mu.Unlock()
		return t, err
	}
	f := s.flight
	if f == nil {
		f = s.start(ctx)
	}
	f.waiters++
	s.mu.Unlock()
	select {
	case <-f.done:
		return f.token, f.err // the flight has counted this use
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-f.done:
		return f.token, f.err
	default:
	}
	if f.waiters--; f.waiters == 0 {
		f.cancel()
		s.flight = nil
	}
	return nil, errNoTokenYet
}

// atHand returns the token, or the failure, that needs no request. Both are nil if a token has
// to be asked for. The caller must hold mu.
func (s *tokenSource) atHand() (*accessToken, error) {
	now := s.now()
	hasFailed := s.failure != nil && now.Sub(s.failedAt) < tokenPause
	if t := s.current; t != nil && (now.Before(t.renewAt) || hasFailed && now.Before(t.expiresAt)) {
		t.uses++
		return t, nil
	}
	if hasFailed {
		return nil, s.failure
	}
	return nil, nil
}

// start starts a flight. It ends when no fetch waits for it any more, and not with the fetch
// that started it. The caller must hold mu.
func (s *tokenSource) start(ctx context.Context) *tokenFlight {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
	f := &tokenFlight{cancel: cancel, done: make(chan struct{})}
	s.flight = f
	go s.fly(ctx, f, s.refresh, s.style)
	return f
}

// fly asks for a token and gives it to the fetches that wait.
func (s *tokenSource) fly(ctx context.Context, f *tokenFlight, refresh string, style oauth2.AuthStyle) {
	defer f.cancel()
	got, err := s.client.token(ctx, refresh, style)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flight != f {
		return // no fetch waits for it
	}
	defer close(f.done)
	s.flight = nil
	now := s.now()
	if err != nil {
		s.failure, s.failedAt = messagef(codeToken, "no access token for the %s: %s", s.rule, err.forScript), now
		if err.isRefusedClient {
			s.style = oauth2.AuthStyleAutoDetect
		}
		s.logger.Warn("no access token for a header of fetches", "rule", s.rule, "auth", *s.rule.OAuth, "error", err.forLog)
		if t := s.current; t != nil && now.Before(t.expiresAt) {
			t.uses += f.waiters
			f.token = t
			return
		}
		f.err = s.failure
		return
	}
	buffer := max(cmp.Or(s.rule.OAuth.RefreshBuffer, defaultRefreshBuffer), 0)
	t := &accessToken{value: "Bearer " + got.value, expiresAt: now.Add(got.life), renewAt: now.Add(got.life - min(buffer, got.life/2)), uses: f.waiters}
	s.current, s.refresh, s.style, s.failure = t, got.refresh, got.style, nil
	s.issued = append(s.issued, t)
	s.forget()
	f.token = t
}

// forget removes the oldest tokens that no fetch uses from those to hide. The caller must hold
// mu.
func (s *tokenSource) forget() {
	unused := 0
	for _, t := range s.issued {
		if t.uses == 0 {
			unused++
		}
	}
	s.issued = slices.DeleteFunc(s.issued, func(t *accessToken) bool {
		if t.uses > 0 || t == s.current || unused <= maxUnusedTokens {
			return false
		}
		unused--
		return true
	})
}

// release ends the use of a token.
func (s *tokenSource) release(t *accessToken) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.uses--
	s.forget()
}

// drop makes the next fetch ask for another token, because a server refused this one. It keeps
// the token if another one was dropped a moment ago: a server that refuses all tokens would
// cause a request for each fetch.
func (s *tokenSource) drop(t *accessToken) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.now(); t == s.current && now.Sub(s.droppedAt) >= tokenPause {
		s.current, s.droppedAt = nil, now
	}
}

// secrets returns what is to be hidden: the tokens, and in answers of the host of the token
// endpoint what that host knows too.
func (s *tokenSource) secrets(isTokenHost bool) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []string
	for _, t := range s.issued {
		list = append(list, t.value)
	}
	if isTokenHost {
		o := s.rule.OAuth
		basic := base64.StdEncoding.EncodeToString([]byte(o.ClientID + ":" + o.ClientSecret))
		list = append(list, o.ClientSecret, "Basic "+basic, s.refresh)
	}
	return list
}
