package access_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"daybook/internal/web/access"
)

// issuer is a small OpenID Connect provider.
type issuer struct {
	*httptest.Server
	mu     sync.Mutex
	keys   []jose.JSONWebKey
	answer http.HandlerFunc // replaces the answer with the keys, if set
	asked  atomic.Int64     // requests for the keys
}

func newIssuer(t *testing.T, keys ...key) *issuer {
	t.Helper()
	i := &issuer{}
	i.publish(keys...)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, i.URL, i.URL+"/keys")
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, r *http.Request) {
		i.asked.Add(1)
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.answer != nil {
			i.answer(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: i.keys})
	})
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	return i
}

// publish replaces the issuer's keys.
func (i *issuer) publish(keys ...key) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = nil
	for _, k := range keys {
		i.keys = append(i.keys, jose.JSONWebKey{Key: k.private.Public(), KeyID: k.id, Use: "sig"})
	}
}

func (i *issuer) answerWith(h http.HandlerFunc) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.answer = h
}

func (i *issuer) authenticator(t *testing.T, c *clock, change ...func(*access.OIDCOptions)) *access.Issuer {
	t.Helper()
	o := access.OIDCOptions{Issuer: i.URL, Audience: "daybook", Now: c.now, Logger: new(lines).logger()}
	for _, f := range change {
		f(&o)
	}
	a, err := access.NewIssuer(o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// key signs tokens.
type key struct {
	id      string
	alg     jose.SignatureAlgorithm
	private crypto.Signer
}

var (
	rsaKey = sync.OnceValue(func() key { return newRSA("rsa-1", 2048) })
	ecKey  = sync.OnceValue(func() key { return newEC("ec-1") })
)

func newRSA(id string, bits int) key {
	k, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		panic(err)
	}
	return key{id, jose.RS256, k}
}

func newEC(id string) key {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return key{id, jose.ES256, k}
}

// sign returns a signed token.
func (k key) sign(t *testing.T, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: k.alg, Key: jose.JSONWebKey{Key: k.private, KeyID: k.id}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	jws, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jws.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// claims returns valid claims with changes. A nil value removes a claim.
func (i *issuer) claims(c *clock, changes map[string]any) map[string]any {
	m := map[string]any{
		"iss": i.URL, "aud": "daybook", "sub": "ada", "tenant": "acme", "scope": "openid read daybook:run",
		"iat": c.now().Unix(), "exp": c.now().Add(time.Hour).Unix(),
	}
	maps.Copy(m, changes)
	maps.DeleteFunc(m, func(_ string, v any) bool { return v == nil })
	return m
}

func TestIssuerIdentifies(t *testing.T) {
	t.Parallel()
	c := newClock()
	i := newIssuer(t, rsaKey(), ecKey())
	for name, test := range map[string]struct {
		key    key
		claims map[string]any
		change func(*access.OIDCOptions)
		want   access.Identity
	}{
		"RS256":                    {rsaKey(), nil, nil, access.Identity{Tenant: "acme", Principal: "ada"}},
		"ES256":                    {ecKey(), nil, nil, access.Identity{Tenant: "acme", Principal: "ada"}},
		"one of several audiences": {rsaKey(), map[string]any{"aud": []string{"x", "daybook"}}, nil, access.Identity{Tenant: "acme", Principal: "ada"}},
		"scp as a list":            {rsaKey(), map[string]any{"scope": nil, "scp": []string{"read", "run"}}, nil, access.Identity{Tenant: "acme", Principal: "ada"}},
		"other claims": {rsaKey(), map[string]any{"tid": "t-1", "roles": []string{"daybook:run", "read"}, "scope": "admin"},
			func(o *access.OIDCOptions) { o.TenantClaim, o.ScopeClaim = "tid", "roles" }, access.Identity{Tenant: "t-1", Principal: "ada"}},
		"one tenant for all": {rsaKey(), map[string]any{"tenant": "theirs"}, func(o *access.OIDCOptions) { o.Tenant = "ours" }, access.Identity{Tenant: "ours", Principal: "ada"}},
		"no key id":          {key{"", jose.RS256, rsaKey().private}, nil, nil, access.Identity{Tenant: "acme", Principal: "ada"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.change == nil {
				test.change = func(*access.OIDCOptions) {}
			}
			claims := i.claims(c, test.claims)
			test.want.Scopes = scopes(t, access.Read, access.Run)
			test.want.Origin, test.want.Expires = "oidc", time.Unix(claims["exp"].(int64), 0)
			got, err := i.authenticator(t, c, test.change).Authenticate(t.Context(), test.key.sign(t, claims))
			if err != nil {
				t.Fatal(err)
			}
			if !got.Expires.Equal(test.want.Expires) {
				t.Errorf("expires %s, want %s", got.Expires, test.want.Expires)
			}
			got.Expires = test.want.Expires
			if got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestIssuerRefuses(t *testing.T) {
	t.Parallel()
	c := newClock()
	weak := newRSA("weak", 1024)
	i := newIssuer(t, rsaKey(), ecKey(), weak)
	a := i.authenticator(t, c)
	good := rsaKey().sign(t, i.claims(c, nil))
	if _, err := a.Authenticate(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	signed := func(changes map[string]any) string { return rsaKey().sign(t, i.claims(c, changes)) }
	parts := strings.Split(good, ".")
	for name, test := range map[string]struct{ token, want string }{
		"another audience":        {signed(map[string]any{"aud": "mail"}), "not made out for this service"},
		"no audience":             {signed(map[string]any{"aud": nil}), "not made out for this service"},
		"another issuer":          {signed(map[string]any{"iss": "https://evil.example"}), "another issuer"},
		"expired":                 {signed(map[string]any{"exp": c.now().Add(-time.Second).Unix()}), "expired on"},
		"without an end":          {signed(map[string]any{"exp": nil}), "does not say when it expires"},
		"not valid yet":           {signed(map[string]any{"nbf": c.now().Add(10 * time.Minute).Unix()}), "not valid yet"},
		"no tenant":               {signed(map[string]any{"tenant": nil}), `claim "tenant"`},
		"a tenant that is none":   {signed(map[string]any{"tenant": "a.*.>"}), `claim "tenant"`},
		"a tenant of a bad type":  {signed(map[string]any{"tenant": 7}), `claim "tenant"`},
		"no subject":              {signed(map[string]any{"sub": nil}), "subject"},
		"a subject of two lines":  {signed(map[string]any{"sub": "a\nb"}), "subject"},
		"no scope of ours":        {signed(map[string]any{"scope": "openid reader"}), "allows nothing"},
		"others' administrator":   {signed(map[string]any{"scope": "openid admin sign"}), "daybook:admin"},
		"a key that is unknown":   {newRSA("rsa-1", 2048).sign(t, i.claims(c, nil)), "signature"},
		"a key id that is not":    {newEC("other").sign(t, i.claims(c, nil)), "signature"},
		"a weak key":              {weak.sign(t, i.claims(c, nil)), "signature"},
		"alg none":                {unsigned(t, i.claims(c, nil)), "signature"},
		"HS256 with a public key": {confused(t, i.claims(c, nil)), "signature"},
		"a changed payload":       {parts[0] + "." + strings.Split(signed(map[string]any{"tenant": "other"}), ".")[1] + "." + parts[2], "signature"},
		"without a signature":     {parts[0] + "." + parts[1] + ".", "signature"},
		"not a token":             {"hello", "signature"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := a.Authenticate(t.Context(), test.token)
			wantTokenError(t, err, test.want)
			for _, part := range strings.Split(test.token, ".") {
				if len(part) > 10 && strings.Contains(err.Error(), part) {
					t.Error("the error repeats the token")
				}
			}
		})
	}
}

// Scopes that other services have under the same names need a prefix.
func TestIssuerScopes(t *testing.T) {
	t.Parallel()
	c := newClock()
	i := newIssuer(t, ecKey())
	for _, test := range []struct {
		scope string
		bare  bool
		want  string
	}{
		{"read run sign admin", false, "read run"},
		{"daybook:read daybook:run daybook:sign daybook:admin", false, "read run sign admin"},
		{"admin daybook:read", false, "read"},
		{"mail:admin daybook:daybook:admin read", false, "read"},
		{"read run sign admin", true, "read run sign admin"},
		{"mail:admin run", true, "run"},
	} {
		id, err := i.authenticator(t, c, func(o *access.OIDCOptions) { o.BareScopes = test.bare }).Authenticate(t.Context(), ecKey().sign(t, i.claims(c, map[string]any{"scope": test.scope})))
		if err != nil || id.Scopes.String() != test.want {
			t.Errorf("%q: %q, %v; want %q", test.scope, id.Scopes, err, test.want)
		}
	}
}

// unsigned returns a token with the algorithm "none".
func unsigned(t *testing.T, claims map[string]any) string {
	t.Helper()
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	b64 := base64.RawURLEncoding
	return b64.EncodeToString([]byte(`{"alg":"none"}`)) + "." + b64.EncodeToString(payload) + "."
}

// confused returns a token that is signed with the public key as a shared secret.
func confused(t *testing.T, claims map[string]any) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(rsaKey().private.Public())
	if err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	b64 := base64.RawURLEncoding
	text := b64.EncodeToString([]byte(`{"alg":"HS256","kid":"rsa-1"}`)) + "." + b64.EncodeToString(payload)
	mac := hmac.New(sha256.New, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	mac.Write([]byte(text))
	return text + "." + b64.EncodeToString(mac.Sum(nil))
}

func TestKeyRotation(t *testing.T) {
	t.Parallel()
	c := newClock()
	before, after := ecKey(), newEC("ec-2")
	i := newIssuer(t, before)
	a := i.authenticator(t, c)
	authenticate := func(k key) error {
		_, err := a.Authenticate(t.Context(), k.sign(t, i.claims(c, nil)))
		return err
	}
	if err := authenticate(before); err != nil {
		t.Fatal(err)
	}
	i.publish(before, after)
	c.advance(11 * time.Second)
	for _, k := range []key{before, after} {
		if err := authenticate(k); err != nil {
			t.Errorf("%s: %v", k.id, err)
		}
	}
	if n := i.asked.Load(); n != 2 {
		t.Errorf("the issuer was asked %d times, want 2", n)
	}
	// A withdrawn key is refused after a short time.
	i.publish(after)
	c.advance(10 * time.Minute)
	wantTokenError(t, authenticate(before), "signature")
	if err := authenticate(after); err != nil {
		t.Error(err)
	}
	// Keys in use are renewed in the background.
	i.publish(before)
	c.advance(5 * time.Minute)
	asked := i.asked.Load()
	if err := authenticate(after); err != nil {
		t.Errorf("while the keys are renewed: %v", err)
	}
	for end := time.Now().Add(20 * time.Second); authenticate(after) == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a withdrawn key is still accepted")
		}
	}
	if err := authenticate(before); err != nil || i.asked.Load() != asked+1 {
		t.Errorf("%v; the issuer was asked %d times, want 1", err, i.asked.Load()-asked)
	}
}

// An issuer that does not answer delays no request with a known key, and other requests
// for a bounded time.
func TestIssuerHangs(t *testing.T) {
	t.Parallel()
	c := newClock()
	i := newIssuer(t, ecKey())
	a := i.authenticator(t, c)
	good := ecKey().sign(t, i.claims(c, map[string]any{"exp": c.now().Add(2 * time.Hour).Unix()}))
	unknown := newEC("new").sign(t, i.claims(c, nil))
	if _, err := a.Authenticate(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	access.SetKeyWait(a, 200*time.Millisecond)
	release := make(chan struct{})
	hanging := make(chan struct{}, 10)
	i.answerWith(func(_ http.ResponseWriter, r *http.Request) {
		hanging <- struct{}{}
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	defer close(release)
	c.advance(6 * time.Minute)
	start := time.Now()
	for range 100 {
		if _, err := a.Authenticate(t.Context(), good); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(start); took > 10*time.Second { // 20 s if each waited
		t.Errorf("100 requests with a known key took %v", took)
	}
	<-hanging // asked once, in the background
	var wg sync.WaitGroup
	for range 300 { // more than maxKeyWaiters
		wg.Go(func() {
			start := time.Now()
			_, err := a.Authenticate(t.Context(), unknown)
			if took := time.Since(start); !errors.As(err, new(*access.UnavailableError)) || took > 4*time.Second { // fetchTimeout is 5 s
				t.Errorf("an unknown key: %v after %v", err, took)
			}
		})
	}
	wg.Wait()
	if n := len(hanging); n != 0 {
		t.Errorf("the issuer was asked %d times more", n)
	}
}

// TestUnknownKeysAreFetchedRarely sends tokens with invented keys from many clients.
func TestUnknownKeysAreFetchedRarely(t *testing.T) {
	t.Parallel()
	c := newClock()
	i := newIssuer(t, rsaKey())
	a := i.authenticator(t, c)
	invented := make([]string, 20)
	for n := range invented {
		invented[n] = newEC(fmt.Sprintf("invented-%d", n)).sign(t, i.claims(c, nil))
	}
	storm := func() {
		var wg sync.WaitGroup
		for _, token := range invented {
			wg.Go(func() {
				for range 10 {
					if _, err := a.Authenticate(t.Context(), token); !errors.As(err, new(*access.TokenError)) {
						t.Errorf("got %v, want a TokenError", err)
					}
				}
			})
		}
		wg.Wait()
	}
	storm()
	if n := i.asked.Load(); n != 1 {
		t.Errorf("the issuer was asked %d times, want 1", n)
	}
	c.advance(10 * time.Second)
	storm()
	if n := i.asked.Load(); n != 2 {
		t.Errorf("ten seconds later the issuer was asked %d times, want 2", n)
	}
	if _, err := a.Authenticate(t.Context(), rsaKey().sign(t, i.claims(c, nil))); err != nil {
		t.Errorf("a valid token meanwhile: %v", err)
	}
}

func TestIssuerDown(t *testing.T) {
	t.Parallel()
	c := newClock()
	i := newIssuer(t, rsaKey())
	i.answerWith(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	a := i.authenticator(t, c)
	authenticate := func() error {
		_, err := a.Authenticate(t.Context(), rsaKey().sign(t, i.claims(c, nil)))
		return err
	}
	for range 5 {
		if err := authenticate(); !errors.As(err, new(*access.UnavailableError)) {
			t.Fatalf("got %v, want an UnavailableError", err)
		}
	}
	if err := a.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "502") {
		t.Errorf("Check says %v, want the answer 502", err)
	}
	if n := i.asked.Load(); n != 1 {
		t.Errorf("the issuer was asked %d times, want 1", n)
	}
	i.answerWith(nil)
	c.advance(10 * time.Second)
	if err := authenticate(); err != nil {
		t.Fatalf("once the issuer is back: %v", err)
	}
	// Known keys are used while the issuer is down again, but not permanently.
	i.answerWith(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	c.advance(30 * time.Minute)
	if err := authenticate(); err != nil {
		t.Errorf("half an hour without the issuer: %v", err)
	}
	c.advance(31 * time.Minute)
	if err := authenticate(); !errors.As(err, new(*access.UnavailableError)) {
		t.Errorf("an hour without the issuer: %v, want an UnavailableError", err)
	}
}

func TestIssuerAnswersBadly(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"no JSON":  func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
		"no keys":  func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"keys":[]}`) },
		"redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
		"secrets": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"keys":[{"kty":"oct","k":"c2VjcmV0","kid":"rsa-1","alg":"HS256"}]}`)
		},
		"endless": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"keys":["`, strings.Repeat("a", 2<<20), `"]}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClock()
			i := newIssuer(t, rsaKey())
			i.answerWith(answer)
			_, err := i.authenticator(t, c).Authenticate(t.Context(), rsaKey().sign(t, i.claims(c, nil)))
			if !errors.As(err, new(*access.UnavailableError)) {
				t.Errorf("got %v, want an UnavailableError", err)
			}
		})
	}
}

func TestNewIssuerRefuses(t *testing.T) {
	t.Parallel()
	good := access.OIDCOptions{Issuer: "https://login.example.com", Audience: "daybook"}
	for want, change := range map[string]func(*access.OIDCOptions){
		"must be an https URL": func(o *access.OIDCOptions) { o.Issuer = "http://login.example.com" },
		"give the URL":         func(o *access.OIDCOptions) { o.Issuer = "login.example.com" },
		"audience":             func(o *access.OIDCOptions) { o.Audience = "" },
		"tenant":               func(o *access.OIDCOptions) { o.Tenant = "A B" },
	} {
		o := good
		change(&o)
		if _, err := access.NewIssuer(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := access.NewIssuer(good); err != nil {
		t.Error(err)
	}
}

// FuzzClaims signs arbitrary claims: the result is an identity that can be recorded, or
// a refusal.
func FuzzClaims(f *testing.F) {
	f.Add(`"tenant":"acme","sub":"ada","scope":"read run"`)
	f.Add(`"tenant":["acme"],"sub":7,"scp":["read",{}]`)
	f.Add(`"tenant":"a.>","sub":"","scope":null,"_claim_names":{"x":"y"}`)
	c := newClock()
	signing := ecKey()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	f.Cleanup(server.Close)
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, server.URL, server.URL+"/keys")
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: signing.private.Public(), KeyID: signing.id}}})
	})
	a, err := access.NewIssuer(access.OIDCOptions{Issuer: server.URL, Audience: "daybook", Now: c.now, Logger: new(lines).logger()})
	if err != nil {
		f.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: signing.alg, Key: jose.JSONWebKey{Key: signing.private, KeyID: signing.id}}, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, members string) {
		jws, err := signer.Sign(fmt.Appendf(nil, `{"iss":%q,"aud":"daybook","exp":%d,%s}`, server.URL, c.now().Add(time.Hour).Unix(), members))
		if err != nil {
			t.Fatal(err)
		}
		token, err := jws.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		id, err := a.Authenticate(t.Context(), token)
		switch {
		case err != nil:
			if !errors.As(err, new(*access.TokenError)) {
				t.Fatalf("%s: %v", members, err)
			}
		case id.Scopes == 0 || id.Tenant == "" || strings.Trim(id.Tenant, "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" || id.Principal == "" || strings.ContainsAny(id.Principal, " \n\x00"):
			t.Fatalf("%s made %+v", members, id)
		}
	})
}
