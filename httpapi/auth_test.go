package httpapi_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/httpapi"
	"daybook/internal/web/access"
)

// keeper has the token file of a test and its tokens.
type keeper struct {
	t    *testing.T
	path string
	auth access.Authenticator
}

// newKeeper creates a token file. Its clock runs fast, so that changes take effect at
// once.
func newKeeper(t *testing.T) *keeper {
	t.Helper()
	k := &keeper{t: t, path: filepath.Join(t.TempDir(), "tokens")}
	k.token("nobody", "nobody", access.Read)
	start := time.Now()
	f, err := access.OpenTokens(k.path, slog.New(slog.DiscardHandler), func() time.Time { return start.Add(1e6 * time.Since(start)) }) // the file is looked at on each request
	if err != nil {
		t.Fatal(err)
	}
	k.auth = f
	return k
}

func (k *keeper) token(tenant, principal string, list ...access.Scope) string {
	k.t.Helper()
	scopes, err := access.NewScopes(list...)
	if err != nil {
		k.t.Fatal(err)
	}
	secret, _, err := access.CreateToken(k.path, access.Grant{Tenant: tenant, Principal: principal, Scopes: scopes}, time.Now())
	if err != nil {
		k.t.Fatal(err)
	}
	return secret
}

func (k *keeper) option(o *httpapi.Options) { o.Auth = k.auth }

func bearer(token string) []string { return []string{"Authorization", "Bearer " + token} }

// TestEveryRouteNeedsAToken tests all operations of the document, so that none can be
// added without a decision.
func TestEveryRouteNeedsAToken(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	s := start(t, k.option, func(o *httpapi.Options) {
		o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("metrics")) })
		o.Mounts = map[string]http.Handler{"/mounted": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			id, _ := access.From(r.Context())
			_, _ = w.Write([]byte(id.Tenant + "/" + id.Principal))
		})}
	})
	reader, runner := k.token("acme", "reader", access.Read), k.token("acme", "runner", access.Run)
	admin := k.token(events.DefaultTenant, "admin", access.Admin) // whose administrators are the operators
	type route struct{ method, path, scope string }
	routes := []route{
		{http.MethodGet, "/metrics", "admin"}, {http.MethodGet, "/docs", ""}, {http.MethodGet, "/openapi.json", ""},
		{http.MethodGet, "/mounted", ""}, {http.MethodPost, "/mounted", ""}, {http.MethodGet, "/nowhere", ""}, {http.MethodPut, "/api/exec", ""},
	}
	for path, item := range document(t).Paths {
		for method := range item {
			scope := "run"
			switch {
			case path == "/healthz" || path == "/readyz":
				continue
			case path == "/api/version":
				scope = ""
			case method == "get" || strings.HasPrefix(path, "/api/sessions/") && strings.HasSuffix(path, "/replay"):
				scope = "read"
			case path == "/api/ledger/checkpoint":
				scope = "sign"
			case strings.HasPrefix(path, "/api/webhooks"), path == "/api/modules", path == "/api/heaps/collect", strings.HasPrefix(path, "/api/ledger/volumes/"), path == "/api/ledger/signers", path == "/api/ledger/key/rotate", path == "/api/sessions/{name}/content", path == "/api/content":
				scope = "admin"
			}
			routes = append(routes, route{strings.ToUpper(method), strings.NewReplacer("{id}", "x", "{heap}", strings.Repeat("0", 64), "{hash}", strings.Repeat("0", 64), "{name}", "x", "{volume}", "1").Replace(path), scope})
		}
	}
	for _, r := range routes {
		name := r.method + " " + r.path
		for _, header := range [][]string{nil, bearer("dbk_aaaaaaaaaa_" + strings.Repeat("a", 52)), {"Authorization", "Basic eA=="}} {
			got := s.do(r.method, r.path, "", header...)
			if got.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s with %v: %d %s, want 401", name, header, got.StatusCode, got.body)
			}
			challenge := got.Header.Get("WWW-Authenticate")
			if !strings.HasPrefix(challenge, "Bearer resource_metadata=\"http://127.0.0.1:") || strings.Contains(challenge, "invalid_token") != (header != nil) {
				t.Errorf("%s with %v: the challenge is %q", name, header, challenge)
			}
		}
		for scope, token := range map[string]string{"read": reader, "run": runner, "admin": admin} {
			got := s.do(r.method, r.path, "", bearer(token)...)
			refused := got.StatusCode == http.StatusForbidden
			if want := r.scope != "" && r.scope != scope && (r.scope != "sign" || scope != "admin"); refused != want {
				t.Errorf("%s with scope %s: %d %s, want refused: %v", name, scope, got.StatusCode, got.body, want)
			}
			if refused && (!strings.Contains(got.Header.Get("WWW-Authenticate"), `error="insufficient_scope", scope="`+r.scope+`"`) || !strings.Contains(string(got.body), r.scope)) {
				t.Errorf("%s with scope %s does not name the missing scope: %q %s", name, scope, got.Header.Get("WWW-Authenticate"), got.body)
			}
			if got.StatusCode == http.StatusUnauthorized {
				t.Errorf("%s with scope %s: 401", name, scope)
			}
		}
	}
	if got := s.do(http.MethodGet, "/mounted", "", bearer(reader)...); string(got.body) != "acme/reader" {
		t.Errorf("a mounted handler got %q", got.body)
	}
}

// The labels of the metrics name tenants and count their runs, so only the operator may read them, and no
// administrator of another tenant.
func TestMetricsAreForTheOperator(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	s := start(t, k.option, func(o *httpapi.Options) {
		o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("metrics")) })
	})
	if got := s.do(http.MethodGet, "/metrics", "", bearer(k.token("acme", "admin", access.Admin))...); got.StatusCode != http.StatusForbidden || !strings.Contains(string(got.body), "send a token of the tenant default with the scope admin") {
		t.Errorf("an administrator of another tenant gets %d %s", got.StatusCode, got.body)
	}
	if got := s.do(http.MethodGet, "/metrics", "", bearer(k.token(events.DefaultTenant, "operator", access.Admin))...); got.StatusCode != http.StatusOK || string(got.body) != "metrics" {
		t.Errorf("the operator gets %d %s", got.StatusCode, got.body)
	}
}

// TestPublicRoutes tests that the routes without a token reveal little.
func TestPublicRoutes(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	s := start(t, k.option, func(o *httpapi.Options) {
		o.Ready = func(context.Context) error { return context.DeadlineExceeded }
		o.Issuers = []string{"https://login.example.com"}
	})
	reader := k.token("acme", "reader", access.Read)
	s.do(http.MethodGet, "/healthz", "").into(t, http.StatusOK, nil)
	if page := string(s.do(http.MethodGet, "/", "").body); strings.Count(page, `curl -H "Authorization: Bearer $DAYBOOK_TOKEN" `) != 2 {
		t.Errorf("commands of the start page have no token:\n%s", page)
	}
	for _, header := range [][]string{nil, bearer("wrong")} {
		if got := s.do(http.MethodGet, "/readyz", "", header...); got.StatusCode != http.StatusServiceUnavailable || strings.Contains(string(got.body), "deadline") {
			t.Errorf("/readyz with %v: %d %s", header, got.StatusCode, got.body)
		}
	}
	if got := s.do(http.MethodGet, "/readyz", "", bearer(reader)...); !strings.Contains(string(got.body), "deadline exceeded") {
		t.Errorf("/readyz with a token gives no reason: %s", got.body)
	}
	if got := s.do(http.MethodGet, "/", ""); got.StatusCode != http.StatusOK || strings.Contains(string(got.body), "<dd>") || !strings.Contains(string(got.body), "Bearer TOKEN") {
		t.Errorf("the landing page: %d %s", got.StatusCode, got.body)
	}
	if got := s.do(http.MethodGet, "/", "", bearer(reader)...); !strings.Contains(string(got.body), "<dd>") {
		t.Errorf("the landing page with a token: %d %s", got.StatusCode, got.body)
	}
	for path, resource := range map[string]string{"": "", "/mcp": "/mcp"} {
		var got struct {
			Resource string   `json:"resource"`
			Servers  []string `json:"authorization_servers"`
			Scopes   []string `json:"scopes_supported"`
		}
		s.do(http.MethodGet, "/.well-known/oauth-protected-resource"+path, "").into(t, http.StatusOK, &got)
		if got.Resource != s.url+resource || len(got.Servers) != 1 || got.Servers[0] != "https://login.example.com" || strings.Join(got.Scopes, " ") != "read run daybook:sign daybook:admin" {
			t.Errorf("the metadata of %q is %+v", path, got)
		}
	}
}

func TestPublicURL(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	h := newBareHandler(t, k.option, func(o *httpapi.Options) { o.PublicURL = "https://book.example/" })
	r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
	r.Host = "localhost"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if got := w.Header().Get("WWW-Authenticate"); got != `Bearer resource_metadata="https://book.example/.well-known/oauth-protected-resource/mcp"` {
		t.Errorf("the challenge is %q", got)
	}
}

// TestTenantsAreSeparate tests that two tenants can use the same session, tags and
// idempotency key.
func TestTenantsAreSeparate(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	s := start(t, k.option)
	ids := map[string]string{}
	for _, who := range []string{"acme", "other"} {
		token := k.token(who, "ada", access.Read, access.Run)
		var out struct {
			ExecutionID string `json:"execution_id"`
		}
		s.do(http.MethodPost, "/api/exec", `{"code":"1","session":"s"}`, append(bearer(token), "Content-Type", "application/json", "Idempotency-Key", "k")...).into(t, http.StatusAccepted, &out)
		ids[who] = out.ExecutionID
		s.catchUp()
		var list struct {
			Executions []struct {
				ExecutionID string `json:"execution_id"`
			} `json:"executions"`
		}
		s.do(http.MethodGet, "/api/executions", "", bearer(token)...).into(t, http.StatusOK, &list)
		if len(list.Executions) != 1 || list.Executions[0].ExecutionID != out.ExecutionID {
			t.Errorf("%s sees %+v", who, list)
		}
		var d struct {
			Actor struct{ Principal, Transport, Client, Address string }
		}
		s.do(http.MethodGet, "/api/executions/"+out.ExecutionID, "", bearer(token)...).into(t, http.StatusOK, &d)
		if d.Actor.Principal != "ada" || d.Actor.Transport != "http" || d.Actor.Address != "127.0.0.1" || !strings.HasPrefix(d.Actor.Client, "Go-http-client") {
			t.Errorf("the recorded actor is %+v", d.Actor)
		}
	}
	if ids["acme"] == ids["other"] {
		t.Error("one idempotency key gave two tenants the same execution")
	}
}

// TestRevokedStream tests that a stream ends when its token is revoked.
func TestRevokedStream(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	s := start(t, k.option)
	token := k.token("acme", "ada", access.Read)
	stream := s.open("/api/events", bearer(token)...)
	for m, more := stream.next(); m.name != "caught-up"; m, more = stream.next() {
		if !more {
			t.Fatal("the stream ended early")
		}
	}
	if _, err := access.RevokeToken(k.path, token, time.Now()); err != nil {
		t.Fatal(err)
	}
	for _, more := stream.next(); more; {
		_, more = stream.next()
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	s := start(t, k.option, func(o *httpapi.Options) {
		o.Quotas = access.NewQuotas(access.Limits{RequestsPerSecond: 0.5, Streams: 1}, nil, nil)
	})
	ada, bob := k.token("acme", "ada", access.Read), k.token("other", "bob", access.Read)
	stream := s.open("/api/events", bearer(ada)...)
	over := s.do(http.MethodGet, "/api/events", "", append(bearer(ada), "Accept", "text/event-stream")...)
	if over.StatusCode != http.StatusTooManyRequests || !strings.Contains(string(over.body), "limit-streams: 1") || over.Header.Get("Retry-After") == "" {
		t.Errorf("a second stream: %d %s", over.StatusCode, over.body)
	}
	stream.resp.Body.Close()
	for range 3 {
		s.do(http.MethodGet, "/api/sessions", "", bearer(ada)...).into(t, http.StatusOK, nil)
	}
	over = s.do(http.MethodGet, "/api/sessions", "", bearer(ada)...)
	if over.StatusCode != http.StatusTooManyRequests || !strings.Contains(string(over.body), "limit-requests") || over.Header.Get("Retry-After") != "2" {
		t.Errorf("the sixth request: %d %s, Retry-After %q", over.StatusCode, over.body, over.Header.Get("Retry-After"))
	}
	s.do(http.MethodGet, "/api/sessions", "", bearer(bob)...).into(t, http.StatusOK, nil)
	s.do(http.MethodGet, "/healthz", "", bearer(ada)...).into(t, http.StatusOK, nil)
	var p httpapi.Problem
	if err := json.Unmarshal(over.body, &p); err != nil || p.Code != "exhausted" {
		t.Errorf("the code is %q, %v", p.Code, err)
	}
}

// TestStrictTransport tests that responses over TLS require TLS from browsers, except
// for loopback names, which all programs of the machine share.
func TestStrictTransport(t *testing.T) {
	t.Parallel()
	h := newBareHandler(t, func(o *httpapi.Options) { o.Hosts = []string{"book.example"} })
	for url, want := range map[string]string{"https://book.example/healthz": "max-age=31536000", "https://localhost:8080/healthz": "", "http://book.example/healthz": ""} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, url, nil))
		if got := w.Header().Get("Strict-Transport-Security"); w.Code != http.StatusOK || got != want {
			t.Errorf("%s: %d, %q, want %q", url, w.Code, got, want)
		}
	}
}

// TestScopesAreDocumented tests that the guide lists the operations whose scope differs
// from the default of their method.
func TestScopesAreDocumented(t *testing.T) {
	t.Parallel()
	raw, err := httpapi.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			Security []map[string][]string
		}
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile(filepath.Join("..", "docs", "guides", "access.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for line := range strings.Lines(string(guide)) {
		if scope, rest, ok := strings.Cut(strings.TrimPrefix(line, "| `"), "` | "); ok {
			rows[scope] += rest
		}
	}
	for path, item := range doc.Paths {
		for method, op := range item {
			scope, usual := "", "run"
			if len(op.Security) > 0 {
				scope = strings.Join(op.Security[0]["bearer"], " ")
			}
			if method == "get" {
				usual = "read"
			}
			if scope == usual || scope == "" && strings.Contains(string(guide), "`"+path+"`") {
				continue
			}
			known := path
			for !strings.Contains(rows[scope], known) && strings.Contains(known, "/{") {
				known = known[:strings.LastIndex(known, "/{")]
			}
			if scope == "" || !strings.Contains(rows[scope], known) {
				t.Errorf("%s %s needs %q, which the guide does not say", method, path, scope)
			}
		}
	}
}
