package fetcher_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"daybook/internal/tools/fetcher"
)

// clientSecret has characters that each kind of encoding changes.
const clientSecret = `cl1ent/&+ s"cret=`

// issuer is a token endpoint. It issues token-1, token-2 and so on, unless answer is set.
type issuer struct {
	*httptest.Server
	mu       sync.Mutex
	requests []url.Values // with the credentials of an Authorization header as basic_id and basic_secret
	answer   func(w http.ResponseWriter, r *http.Request, n int)
}

func newIssuer(t testing.TB, serve func(testing.TB, http.HandlerFunc) *httptest.Server) *issuer {
	t.Helper()
	i := &issuer{}
	i.Server = serve(t, func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil || r.Method != http.MethodPost {
			http.Error(w, "not a form", http.StatusBadRequest)
			return
		}
		i.mu.Lock()
		if id, password, ok := r.BasicAuth(); ok {
			r.PostForm.Set("basic_id", id)
			r.PostForm.Set("basic_secret", password)
		}
		i.requests = append(i.requests, r.PostForm)
		n, answer := len(i.requests), i.answer
		i.mu.Unlock()
		if answer == nil {
			answer = issue(3600)
		}
		answer(w, r, n)
	})
	return i
}

// issue answers with tokens that live for a number of seconds, and with refresh tokens.
func issue(seconds int) func(http.ResponseWriter, *http.Request, int) {
	return func(w http.ResponseWriter, _ *http.Request, n int) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": fmt.Sprintf("token-%d", n), "token_type": "bearer", "expires_in": seconds, "refresh_token": fmt.Sprintf("refresh-%d", n)})
	}
}

func (i *issuer) set(answer func(http.ResponseWriter, *http.Request, int)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.answer = answer
}

func (i *issuer) asked() []url.Values {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.requests)
}

// grants returns the kinds of the requests.
func (i *issuer) grants() string {
	var list []string
	for _, r := range i.asked() {
		list = append(list, strings.TrimSuffix(r.Get("grant_type")+" "+r.Get("refresh_token"), " "))
	}
	return strings.Join(list, ", ")
}

// oauthRule returns a rule for a server under the name example.com.
func oauthRule(t testing.TB, s *httptest.Server, i *issuer) fetcher.HeaderRule {
	t.Helper()
	return fetcher.HeaderRule{
		Host: "example.com:" + portOf(t, s), Header: "Authorization", Plain: true,
		OAuth: &fetcher.OAuth{TokenURL: at(t, i.Server, "example.com", "/token"), ClientID: "me", ClientSecret: clientSecret, Scope: "read write"},
	}
}

// clock is a clock that tests set forward.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// oauthFetcher returns a fetcher with a rule, and its clock.
func oauthFetcher(t *testing.T, rules ...fetcher.HeaderRule) (*fetcher.Fetcher, *clock) {
	t.Helper()
	f, c := withRules(t, rules...), &clock{at: time.Now()}
	f.SetClock(c.now)
	return f, c
}

// showToken answers with the Authorization header in a form that is not hidden.
func showToken(w http.ResponseWriter, r *http.Request) {
	fmt.Fprint(w, strings.ReplaceAll(r.Header.Get("Authorization"), "token-", "number "))
}

func TestAccessTokens(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB, http.HandlerFunc) *httptest.Server{"with TLS": serveTLS, "without TLS": serve} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, other, i := start(t, showToken), start(t, showToken), newIssuer(t, start)
			f, _ := oauthFetcher(t, oauthRule(t, s, i))
			to := at(t, s, "example.com", "/")
			if got := must(t, f, request{URL: to, Headers: [][2]string{{"authorization", "mine"}}}); got.text(t) != "mine" || i.grants() != "" {
				t.Errorf("with a header of the script: %q, requests %q", got.text(t), i.grants())
			}
			if got := must(t, f, request{URL: at(t, other, "example.com", "/")}); got.text(t) != "" || i.grants() != "" {
				t.Errorf("another host: %q, requests %q", got.text(t), i.grants())
			}
			for range 3 {
				res := fetch(t, f, request{URL: to})
				if !strings.Contains(string(res.Text), `"Bearer number 1"`) || !slices.Equal(res.Hops[0].Added, []string{"authorization"}) {
					t.Errorf("%s, %+v", res.Text, res.Hops)
				}
			}
			want := url.Values{"grant_type": {"client_credentials"}, "client_id": {"me"}, "client_secret": {clientSecret}, "scope": {"read write"}}
			if got := i.asked(); len(got) != 1 || got[0].Encode() != want.Encode() {
				t.Errorf("the token endpoint got %q", got)
			}
		})
	}
}

// The operator has chosen the token endpoint, so that it may have an address that scripts
// cannot reach.
func TestPrivateTokenEndpoint(t *testing.T) {
	t.Parallel()
	s, i := serve(t, showToken), newIssuer(t, serve)
	f := newFetcher(t, func(o *fetcher.Options) {
		o.Headers, o.Resolver, o.AllowNetworks = []fetcher.HeaderRule{oauthRule(t, s, i)}, toLoopback(), []netip.Prefix{}
	})
	mustFail(t, f, request{URL: at(t, s, "example.com", "/")}, "no public address")
	mustFail(t, f, request{URL: at(t, i.Server, "example.com", "/token"), Method: "POST"}, "no public address")
	if got := i.grants(); got != "client_credentials" {
		t.Errorf("requests %q", got)
	}
}

// fetchInBackground starts fetches and returns their texts in a channel.
func fetchInBackground(ctx context.Context, f *fetcher.Fetcher, to string, n int) <-chan fetcher.Result {
	results := make(chan fetcher.Result, n)
	for range n {
		go func() {
			res := f.Fetch(ctx, caller, fmt.Appendf(nil, `{"url":%q}`, to))
			res.Release()
			results <- res
		}()
	}
	return results
}

// waitForTokens waits until a number of fetches wait for a token.
func waitForTokens(t *testing.T, f *fetcher.Fetcher, n int) {
	t.Helper()
	for f.WaitingForToken() != n {
		select {
		case <-t.Context().Done():
			t.Fatal("the test is over")
		case <-time.After(time.Millisecond):
		}
	}
}

func TestParallelFetchesAskForOneToken(t *testing.T) {
	t.Parallel()
	const n = 100
	s, i := serve(t, showToken), newIssuer(t, serve)
	f, _ := oauthFetcher(t, oauthRule(t, s, i))
	release := make(chan struct{})
	i.set(func(w http.ResponseWriter, r *http.Request, n int) {
		<-release
		issue(3600)(w, r, n)
	})
	results := fetchInBackground(t.Context(), f, at(t, s, "example.com", "/"), n)
	waitForTokens(t, f, n)
	close(release)
	for range n {
		if res := <-results; !strings.Contains(string(res.Text), "Bearer number 1") {
			t.Errorf("%s", res.Text)
		}
	}
	if got := i.grants(); got != "client_credentials" {
		t.Errorf("requests %q", got)
	}
}

// A failure is the answer to all fetches that wait, and to those of the next seconds.
func TestFailuresAreShared(t *testing.T) {
	t.Parallel()
	const n = 30
	s, i := serve(t, showToken), newIssuer(t, serve)
	f, c := oauthFetcher(t, oauthRule(t, s, i))
	to := at(t, s, "example.com", "/")
	release := make(chan struct{})
	i.set(func(w http.ResponseWriter, _ *http.Request, _ int) {
		<-release
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	results := fetchInBackground(t.Context(), f, to, n)
	waitForTokens(t, f, n)
	close(release)
	for range n {
		if res := <-results; !strings.Contains(string(res.Text), "the token endpoint answered with status 503") {
			t.Errorf("%s", res.Text)
		}
	}
	i.set(issue(3600))
	c.add(4 * time.Second)
	mustFail(t, f, request{URL: to}, "the token endpoint answered with status 503")
	if got := i.grants(); got != "client_credentials" {
		t.Errorf("requests %q", got)
	}
	c.add(2 * time.Second)
	if got := must(t, f, request{URL: to}); got.text(t) != "Bearer number 2" {
		t.Errorf("after the pause: %s", got.text(t))
	}
}

func TestTokensAreRenewed(t *testing.T) {
	t.Parallel()
	s, i := serve(t, showToken), newIssuer(t, serve)
	i.set(issue(100))
	f, c := oauthFetcher(t, oauthRule(t, s, i))
	to := at(t, s, "example.com", "/")
	expect := func(what, token, grants string) {
		t.Helper()
		if got := must(t, f, request{URL: to}); got.text(t) != token || i.grants() != grants {
			t.Errorf("%s: %q, requests %q", what, got.text(t), i.grants())
		}
	}
	expect("at first", "Bearer number 1", "client_credentials")
	c.add(65 * time.Second)
	expect("before the buffer", "Bearer number 1", "client_credentials")
	c.add(6 * time.Second)
	expect("within the buffer", "Bearer number 2", "client_credentials, refresh_token refresh-1")
	i.set(func(w http.ResponseWriter, r *http.Request, n int) {
		if r.PostForm.Get("grant_type") == "refresh_token" {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":"invalid_grant"}`)
			return
		}
		issue(100)(w, r, n)
	})
	c.add(71 * time.Second)
	expect("with a refused refresh token", "Bearer number 4", "client_credentials, refresh_token refresh-1, refresh_token refresh-2, client_credentials")
	// A token that is still valid is used while the endpoint fails, and the endpoint is not asked for each fetch.
	i.set(func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(http.StatusBadGateway) })
	c.add(71 * time.Second)
	before := len(i.asked())
	expect("while the endpoint fails", "Bearer number 4", i.grants()+", refresh_token refresh-4, client_credentials")
	for range 3 {
		if got := must(t, f, request{URL: to}); got.text(t) != "Bearer number 4" || len(i.asked()) != before+2 {
			t.Errorf("while the endpoint fails: %q, %d requests", got.text(t), len(i.asked())-before)
		}
	}
	c.add(30 * time.Second)
	mustFail(t, f, request{URL: to}, "the token endpoint answered with status 502")
}

// The buffer is at most half of the life of a token: otherwise each fetch would ask for one.
func TestShortTokens(t *testing.T) {
	t.Parallel()
	s, i := serve(t, showToken), newIssuer(t, serve)
	i.set(issue(10))
	f, c := oauthFetcher(t, oauthRule(t, s, i))
	to := at(t, s, "example.com", "/")
	for _, step := range []struct {
		after time.Duration
		want  string
	}{{0, "Bearer number 1"}, {4 * time.Second, "Bearer number 1"}, {2 * time.Second, "Bearer number 2"}} {
		c.add(step.after)
		if got := must(t, f, request{URL: to}); got.text(t) != step.want {
			t.Errorf("after %s: %s", step.after, got.text(t))
		}
	}
}

// An endpoint that takes the credentials in a header only is asked twice, once.
func TestCredentialsInHeader(t *testing.T) {
	t.Parallel()
	s, i := serve(t, showToken), newIssuer(t, serve)
	i.set(func(w http.ResponseWriter, r *http.Request, n int) {
		if r.PostForm.Get("basic_id") == "" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error":"invalid_client"}`)
			return
		}
		issue(1)(w, r, n)
	})
	f, c := oauthFetcher(t, oauthRule(t, s, i))
	for _, want := range []string{"Bearer number 2", "Bearer number 3"} {
		if got := must(t, f, request{URL: at(t, s, "example.com", "/")}); got.text(t) != want {
			t.Errorf("%s, want %s", got.text(t), want)
		}
		c.add(time.Minute)
	}
	got := i.asked()
	if id, password := got[1].Get("basic_id"), got[1].Get("basic_secret"); id != "me" || password != url.QueryEscape(clientSecret) || got[1].Get("client_secret") != "" {
		t.Errorf("%q", got[1])
	}
}

// lines is a log that tests read.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Whatever a token endpoint answers, the script and the log learn nothing of it but the kind.
func TestHostileTokenEndpoints(t *testing.T) {
	t.Parallel()
	text := func(status int, kind, body string) func(http.ResponseWriter, *http.Request, int) {
		return func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	answer := func(body string) func(http.ResponseWriter, *http.Request, int) {
		return text(200, "application/json", body)
	}
	for name, test := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request, int)
		want   string // empty: the token is used
	}{
		"refused with the secret": {text(403, "application/json", `{"error":"BODY `+clientSecret+`","error_description":"BODY"}`), "the token endpoint answered with status 403"},
		"known error":             {text(400, "application/json", `{"error":"invalid_scope","error_description":"BODY"}`), "status 400 and the error invalid_scope"},
		"error with status 200":   {answer(`{"error":"invalid_client","access_token":"BODY"}`), "status 200 and the error invalid_client"},
		"page":                    {text(502, "text/html", `<html>BODY`), "status 502"},
		"page with status 200":    {text(200, "text/html", `<html>BODY`), "has no access token"},
		"no token":                {answer(`{"token":"BODY"}`), "has no access token"},
		"empty":                   {answer(``), "has no access token"},
		"array":                   {answer(`["BODY"]`), "has no access token"},
		"half":                    {answer(`{"access_token":"BODY`), "has no access token"},
		"number":                  {answer(`{"access_token":17}`), "has no access token"},
		"huge":                    {answer(`{"access_token":"BODY","x":"` + strings.Repeat("x", 1<<20) + `"}`), "is longer than 64 KiB"},
		"endless": {func(w http.ResponseWriter, r *http.Request, _ int) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		}, "is longer than 64 KiB"},
		"huge token":           {answer(`{"access_token":"` + strings.Repeat("BODY", 5000) + `"}`), "is longer than 16 KiB"},
		"huge headers":         {func(w http.ResponseWriter, _ *http.Request, _ int) { w.Header().Set("X", strings.Repeat("x", 1<<20)) }, "cannot be reached"},
		"line end in token":    {answer(`{"access_token":"BODY\r\nX-Evil: 1"}`), "characters that no header can have"},
		"space in token":       {answer(`{"access_token":"BODY x"}`), "characters that no header can have"},
		"other type":           {answer(`{"access_token":"BODY","token_type":"mac"}`), "not a bearer token"},
		"expired":              {answer(`{"access_token":"BODY","expires_in":-1}`), "has expired already"},
		"long expired":         {answer(`{"access_token":"BODY","expires_in":-2000000000}`), "has expired already"},
		"expiry of other type": {answer(`{"access_token":"BODY","expires_in":"soon"}`), "has no access token"},
		"redirect": {func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.Header().Set("Location", "/other?BODY")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}, "status 307; a redirect is not followed"},
		"no answer": {func(http.ResponseWriter, *http.Request, int) { panic(http.ErrAbortHandler) }, "cannot be reached"},
		"not HTTP": {func(w http.ResponseWriter, _ *http.Request, _ int) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "BODY "+clientSecret+"\r\n\r\n")
			_ = c.Close()
		}, "cannot be reached"},
		"huge expiry":    {answer(`{"access_token":"token-1","expires_in":9000000000000000000}`), ""},
		"expiry as text": {answer(`{"access_token":"token-1","expires_in":"3600"}`), ""},
		"no expiry":      {answer(`{"access_token":"token-1","token_type":"BearerToken"}`), ""},
		"JSON as text":   {text(200, "text/plain", ` {"access_token":"token-1"}`), ""},
		"form":           {text(200, "application/x-www-form-urlencoded", `access_token=token-1&expires_in=3600`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var hits int
			s, i := serve(t, func(w http.ResponseWriter, r *http.Request) { hits++; showToken(w, r) }), newIssuer(t, serve)
			i.set(test.answer)
			log := &lines{}
			f := newFetcher(t, func(o *fetcher.Options) {
				o.Headers, o.Resolver, o.Logger = []fetcher.HeaderRule{oauthRule(t, s, i)}, toLoopback(), slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			})
			to := request{URL: at(t, s, "example.com", "/")}
			if test.want == "" {
				if got := must(t, f, to); got.text(t) != "Bearer number 1" {
					t.Errorf("%s", got.text(t))
				}
				return
			}
			asked := 0
			for n := range 3 {
				res := mustFail(t, f, to, "no access token for the header Authorization for "+oauthRule(t, s, i).Host)
				for what, said := range map[string]string{"script": string(res.Text), "log": log.String()} {
					if !strings.Contains(said, test.want) || strings.Contains(said, "BODY") || strings.Contains(said, "cl1ent") || strings.Contains(said, "s\\\"cret") {
						t.Errorf("the %s gets: %s", what, said)
					}
				}
				if !strings.HasSuffix(string(res.Text), " [ERR_FETCH_TOKEN]") {
					t.Errorf("%s", res.Text)
				}
				if n == 0 {
					asked = len(i.asked())
				}
				if len(res.Hops) != 1 || !res.Hops[0].Allowed || len(res.Hops[0].Added) > 0 || res.Hops[0].Status != 0 {
					t.Errorf("%+v", res.Hops)
				}
			}
			if hits > 0 || len(i.asked()) != asked || asked > 2 {
				t.Errorf("%d requests to the host, %d and then %d to the token endpoint", hits, asked, len(i.asked()))
			}
			if !strings.Contains(log.String(), "OAuth with tokens of example.com:"+portOf(t, i.Server)) {
				t.Errorf("the log does not name the endpoint: %s", log)
			}
		})
	}
}

// An endpoint that cannot be reached or does not prove its name gets nothing.
func TestUnreachableTokenEndpoints(t *testing.T) {
	t.Parallel()
	s := serve(t, showToken)
	untrusted, closed := newIssuer(t, serveTLS), newIssuer(t, serve)
	closed.Close()
	for _, i := range []*issuer{untrusted, closed} {
		f := newFetcher(t, func(o *fetcher.Options) {
			o.Headers, o.Resolver = []fetcher.HeaderRule{oauthRule(t, s, i)}, toLoopback()
		})
		res := mustFail(t, f, request{URL: at(t, s, "example.com", "/")}, "the token endpoint cannot be reached")
		if strings.Contains(string(res.Text), portOf(t, i.Server)) || len(i.asked()) > 0 {
			t.Errorf("%s, %d requests", res.Text, len(i.asked()))
		}
	}
}

func TestSlowTokenEndpoint(t *testing.T) {
	t.Parallel()
	s, i := serve(t, showToken), newIssuer(t, serve)
	i.set(func(w http.ResponseWriter, r *http.Request, _ int) {
		_, _ = io.WriteString(w, `{"access_token":`)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	f, _ := oauthFetcher(t, oauthRule(t, s, i))
	f.SetTokenTimeout(50 * time.Millisecond)
	mustFail(t, f, request{URL: at(t, s, "example.com", "/")}, "the token endpoint did not answer within 50ms")
}

// The time limit of a fetch is also that of waiting for a token.
func TestFetchTimeoutWhileWaiting(t *testing.T) {
	t.Parallel()
	s, i := serve(t, showToken), newIssuer(t, serve)
	i.set(func(_ http.ResponseWriter, r *http.Request, _ int) { <-r.Context().Done() })
	f := newFetcher(t, func(o *fetcher.Options) {
		o.Headers, o.Resolver, o.Timeout = []fetcher.HeaderRule{oauthRule(t, s, i)}, toLoopback(), time.Second
	})
	f.SetTokenTimeout(time.Hour)
	res := fetch(t, f, request{URL: at(t, s, "example.com", "/")})
	if res.Outcome != fetcher.TimedOut || !strings.Contains(string(res.Text), "no access token for an added header within 1s [ETIMEDOUT]") {
		t.Errorf("%s: %s", res.Outcome, res.Text)
	}
}

// A run that ends waits for no token. The request for it ends with the last fetch that waits.
func TestCancelledWhileWaiting(t *testing.T) {
	t.Parallel()
	s, i := serve(t, showToken), newIssuer(t, serve)
	started, ended, release := make(chan struct{}, 2), make(chan struct{}, 2), make(chan struct{})
	i.set(func(w http.ResponseWriter, r *http.Request, n int) {
		started <- struct{}{}
		select {
		case <-r.Context().Done():
		case <-release:
			issue(3600)(w, r, n)
		}
		ended <- struct{}{}
	})
	f, _ := oauthFetcher(t, oauthRule(t, s, i))
	to := at(t, s, "example.com", "/")
	ctx, cancel := context.WithCancel(t.Context())
	results := fetchInBackground(ctx, f, to, 2)
	waitForTokens(t, f, 2)
	<-started
	cancel()
	for range 2 {
		if res := <-results; res.Outcome != fetcher.Cancelled {
			t.Errorf("%s: %s", res.Outcome, res.Text)
		}
	}
	<-ended
	ctx, cancel = context.WithCancel(t.Context())
	cancelled := fetchInBackground(ctx, f, to, 1)
	waitForTokens(t, f, 1)
	<-started
	results = fetchInBackground(t.Context(), f, to, 1)
	waitForTokens(t, f, 2)
	cancel()
	if res := <-cancelled; res.Outcome != fetcher.Cancelled {
		t.Errorf("%s: %s", res.Outcome, res.Text)
	}
	close(release)
	if res := <-results; !strings.Contains(string(res.Text), "Bearer number 2") {
		t.Errorf("%s", res.Text)
	}
}

// A token that the server refuses is not used again, and the request is not repeated. A server
// that refuses all tokens does not cause a request for each fetch.
func TestRefusedTokens(t *testing.T) {
	t.Parallel()
	var hits int
	s, i := serve(t, func(w http.ResponseWriter, r *http.Request) {
		hits++
		w.WriteHeader(http.StatusUnauthorized)
		showToken(w, r)
	}), newIssuer(t, serve)
	i.set(func(w http.ResponseWriter, _ *http.Request, n int) {
		fmt.Fprintf(w, `{"access_token":"token-%d","expires_in":3600}`, n)
	})
	f, c := oauthFetcher(t, oauthRule(t, s, i))
	to := request{Method: "POST", URL: at(t, s, "example.com", "/"), Body: map[string]any{"text": "x"}}
	own := to
	own.Headers = [][2]string{{"Authorization", "mine"}}
	for n, step := range []struct {
		request request
		after   time.Duration
		want    string
	}{
		{to, 0, "Bearer number 1"}, {to, 0, "Bearer number 2"}, {to, 0, "Bearer number 2"}, {to, 6 * time.Second, "Bearer number 2"}, {own, 6 * time.Second, "mine"}, {to, 0, "Bearer number 3"},
	} {
		c.add(step.after)
		if got := must(t, f, step.request); got.Status != 401 || got.text(t) != step.want {
			t.Errorf("fetch %d: %d %s, want %s", n+1, got.Status, got.text(t), step.want)
		}
		if hits != n+1 {
			t.Errorf("fetch %d: the server has %d requests", n+1, hits)
		}
	}
}

// A server that repeats a token does not tell it to a script: neither the one of the fetch nor
// an earlier one, and the host of the token endpoint does not tell the secret.
func TestRepeatedTokens(t *testing.T) {
	t.Parallel()
	var seen []string
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		for _, token := range seen {
			w.Header().Add("X-Echo", token)
			fmt.Fprintln(w, token, base64.StdEncoding.EncodeToString([]byte(token)), url.QueryEscape(token))
		}
	})
	i := newIssuer(t, serve)
	token := func(n int) string { return fmt.Sprintf("acce55/+t0ken=%d", n) }
	i.set(func(w http.ResponseWriter, r *http.Request, n int) {
		if r.URL.Path == "/echo" {
			fmt.Fprint(w, clientSecret, " ", base64.StdEncoding.EncodeToString([]byte("me:"+clientSecret)), " refresh-", n-1, " ", token(n-1))
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": token(n), "expires_in": 100, "refresh_token": fmt.Sprintf("refresh-%d", n)})
	})
	f, c := oauthFetcher(t, oauthRule(t, s, i))
	for n := range 3 {
		res := fetch(t, f, request{URL: at(t, s, "example.com", "/")})
		text := string(res.Text) + string(res.ResponseBody)
		if strings.Contains(text, "acce55") || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte("acce55"))[:7]) || strings.Count(string(res.ResponseBody), "[hidden]") < 2*(n+1) {
			t.Errorf("fetch %d: %s", n+1, text)
		}
		c.add(time.Minute + 20*time.Second)
	}
	if len(seen) != 3 || seen[2] != token(3) {
		t.Errorf("the server got %q", seen)
	}
	res := fetch(t, f, request{Method: "POST", URL: at(t, i.Server, "example.com", "/echo")})
	if text := string(res.ResponseBody); strings.ReplaceAll(text, "[hidden]", "") != "   " {
		t.Errorf("the host of the token endpoint: %s", text)
	}
	other := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, token(1), clientSecret) })
	if got := must(t, f, request{URL: other.URL}); got.text(t) != token(1)+clientSecret {
		t.Errorf("from another host: %q", got.text(t))
	}
}

// A token that a fetch uses is hidden, however many tokens came after it.
func TestTokensInUseStayHidden(t *testing.T) {
	t.Parallel()
	seen, release := make(chan string, 1), make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			seen <- r.Header.Get("Authorization")
			<-release
		}
		fmt.Fprint(w, r.Header.Get("Authorization"))
	})
	i := newIssuer(t, serve)
	f, c := oauthFetcher(t, oauthRule(t, s, i))
	waiting := fetchInBackground(t.Context(), f, at(t, s, "example.com", "/wait"), 1)
	<-seen
	for range 20 {
		c.add(2 * time.Hour)
		if got := must(t, f, request{URL: at(t, s, "example.com", "/")}); got.text(t) != "[hidden]" {
			t.Errorf("%s", got.text(t))
		}
	}
	close(release)
	if res := <-waiting; !strings.Contains(string(res.Text), `"[hidden]"`) || len(i.asked()) != 21 {
		t.Errorf("%s after %d tokens", res.Text, len(i.asked()))
	}
	if n := f.KnownTokens(); n != 8 {
		t.Errorf("%d tokens are kept", n)
	}
}

// A late refusal of an earlier token does not drop the newest one.
func TestLateRefusal(t *testing.T) {
	t.Parallel()
	seen, release := make(chan struct{}, 1), make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			seen <- struct{}{}
			<-release
			w.WriteHeader(http.StatusUnauthorized)
		}
		showToken(w, r)
	})
	i := newIssuer(t, serve)
	f, c := oauthFetcher(t, oauthRule(t, s, i))
	waiting := fetchInBackground(t.Context(), f, at(t, s, "example.com", "/wait"), 1)
	<-seen
	c.add(2 * time.Hour)
	must(t, f, request{URL: at(t, s, "example.com", "/")})
	close(release)
	if res := <-waiting; !strings.Contains(string(res.Text), `"status":401`) {
		t.Errorf("%s", res.Text)
	}
	if got := must(t, f, request{URL: at(t, s, "example.com", "/")}); got.text(t) != "Bearer number 2" {
		t.Errorf("%s", got.text(t))
	}
}

func TestParseOAuth(t *testing.T) {
	t.Parallel()
	r, err := fetcher.ParseHeaderFlag("host=api.example.com,token_url=https://issuer.example.com/token?a=b,client_id=me,client_secret=${TOKEN},scope=read write,refresh_buffer_secs=45,methods=GET;POST", lookup)
	want := fetcher.OAuth{TokenURL: "https://issuer.example.com/token?a=b", ClientID: "me", ClientSecret: secret, Scope: "read write", RefreshBuffer: 45 * time.Second}
	if err != nil || r.OAuth == nil || *r.OAuth != want || r.Header != "Authorization" || !slices.Equal(r.Methods, []string{"GET", "POST"}) {
		t.Errorf("%v, %v", r, err)
	}
	// The second rule is the example of mcp-v8's documentation.
	rules, err := fetcher.ParseHeaderFile([]byte(`[{"host":"api.github.com","methods":["GET"],"headers":{"Authorization":"Bearer ghp_xxxx"}},
		{"host":"api.example.com","methods":["GET","POST"],"auth":{"type":"oauth_client_credentials","header":"X-Token","token_url":"https://issuer.example.com/oauth2/token","client_id":"my-client","client_secret":"my-secret","scope":"read:all","refresh_buffer_secs":0}},
		{"host":"b.example","auth":{"type":"oauth_client_credentials","token_url":"http://127.0.0.1:8080/t","client_id":"${TOKEN}","client_secret":"${TOKEN}"},"plain":true}]`), lookup)
	if err != nil || len(rules) != 3 {
		t.Fatalf("%v, %v", rules, err)
	}
	want = fetcher.OAuth{TokenURL: "https://issuer.example.com/oauth2/token", ClientID: "my-client", ClientSecret: "my-secret", Scope: "read:all", RefreshBuffer: -1}
	if got := rules[1]; *got.OAuth != want || got.Header != "X-Token" || len(got.Methods) != 2 {
		t.Errorf("%v", got)
	}
	if got := rules[2]; got.OAuth.ClientSecret != secret || got.OAuth.ClientID != secret || got.OAuth.RefreshBuffer != 0 || got.Header != "Authorization" || !got.Plain {
		t.Errorf("%v", got)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(format, rules) + fmt.Sprintf(format, rules[1].OAuth) + fmt.Sprintf(format, *rules[1].OAuth); strings.Contains(text, "my-secret") {
			t.Errorf("%s shows %s", format, text)
		}
	}
	const head, all = "host=a.example,", "host=a.example,token_url=https://b.example/t,client_id=me,client_secret=${TOKEN}"
	for flag, want := range map[string]string{
		head + "token_url=https://b.example/t,client_id=me,client_secret=" + secret:  "the value is visible to other users",
		head + "token_url=https://b.example/t,client_id=me,client_secret=${NONE}":    "the environment has no NONE",
		head + "token_url=https://b.example/t,client_id=me":                          "client_secret is missing",
		head + "token_url=https://b.example/t,client_secret=${TOKEN}":                "client_id is missing",
		head + "client_id=me,client_secret=${TOKEN}":                                 "token_url is missing",
		head + "token_url=http://b.example/t,client_id=me,client_secret=${TOKEN}":    "token_url must begin with https://",
		head + "token_url=b.example,client_id=me,client_secret=${TOKEN}":             "token_url must be a URL",
		head + "token_url=https://u:p@b.example,client_id=me,client_secret=${TOKEN}": "token_url must be a URL",
		head + "token_url=https://b.example/#x,client_id=me,client_secret=${TOKEN}":  "token_url must be a URL",
		all + ",value=${TOKEN}":           "either a value or OAuth",
		all + ",override=true":            "never replaces a header of a script",
		all + ",refresh_buffer_secs=-1":   "refresh_buffer_secs must be a number",
		all + ",refresh_buffer_secs=soon": "refresh_buffer_secs must be a number",
		all + ",header=X y":               "the name of the header is malformed",
	} {
		if _, err := fetcher.ParseHeaderFlag(flag, lookup); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v, want %q", flag, err, want)
		}
	}
	const auth = `"auth":{"type":"oauth_client_credentials","token_url":"https://b.example/t","client_id":"me","client_secret":"s3cret"`
	for text, want := range map[string]string{
		`[{"host":"a.example","auth":{}}]`: `the type of auth must be "oauth_client_credentials"`, `[{"host":"a.example",` + auth + `,"x":1}}]`: `member "x" is unknown`,
		`[{"host":"a.example",` + auth + `},"headers":{"X":"y"}}]`: "either headers or auth", `[{"host":"a.example",` + auth + `},"override":false}]`: "never replaces",
		`[{"host":"a.example",` + auth + `,"refresh_buffer_secs":86401}}]`: "refresh_buffer_secs must be", `[{"host":"*",` + auth + `}}]`: "the host must be a name",
	} {
		if _, err := fetcher.ParseHeaderFile([]byte(text), lookup); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
