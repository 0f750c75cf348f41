package embed_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/embed"
)

// The tokens of an OpenID Connect issuer are accepted over REST and MCP. A client that knows
// only the address of the server finds the issuer.
func TestIssuer(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	issuer := httptest.NewServer(mux)
	t.Cleanup(issuer.Close)
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, issuer.URL, issuer.URL+"/keys")
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "1", Use: "sig"}}})
	})
	token := func(audience, subject, scope string) string {
		t.Helper()
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "1"}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		claims, err := json.Marshal(map[string]any{"iss": issuer.URL, "aud": audience, "sub": subject, "scope": scope, "tenant": "acme", "exp": time.Now().Add(time.Hour).Unix()})
		if err != nil {
			t.Fatal(err)
		}
		jws, err := signer.Sign(claims)
		if err != nil {
			t.Fatal(err)
		}
		text, err := jws.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	g := &guarded{t: t, book: start(t, embed.Options{HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}, Access: embed.AccessOptions{OIDC: embed.OIDC{Issuer: issuer.URL, Audience: "daybook"}}})}

	// The requests of a client that knows only the address.
	res, err := http.Post(g.book.URL()+"/mcp", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	_, rest, ok := strings.Cut(res.Header.Get("WWW-Authenticate"), `resource_metadata="`+g.book.URL())
	where, _, _ := strings.Cut(rest, `"`)
	if res.StatusCode != http.StatusUnauthorized || !ok {
		t.Fatalf("%s, challenge %q", res.Status, res.Header.Get("WWW-Authenticate"))
	}
	var metadata struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
	}
	g.decode("", http.MethodGet, where, "", &metadata)
	if metadata.Resource != g.book.URL()+"/mcp" || len(metadata.Servers) != 1 || metadata.Servers[0] != issuer.URL {
		t.Errorf("the metadata is %+v", metadata)
	}

	ada := token("daybook", "ada", "read run")
	var run struct {
		ID    string `json:"execution_id"`
		Actor struct{ Principal, Transport string }
	}
	g.decode(ada, http.MethodPost, "/api/exec", `{"code":"1"}`, &run)
	g.decode(ada, http.MethodGet, "/api/executions/"+run.ID+"?wait=60", "", &run)
	if run.Actor.Principal != "ada" || run.Actor.Transport != "http" {
		t.Errorf("the actor is %+v", run.Actor)
	}
	res2, err := g.connect(token("daybook", "bob", "daybook:read"), "2025-11-25").CallTool(t.Context(), &sdk.CallToolParams{Name: "get_execution", Arguments: map[string]any{"execution_id": run.ID}})
	if err != nil || res2.IsError {
		t.Errorf("another user of the tenant: %+v, %v", res2, err)
	}
	for want, bad := range map[string]string{"not made out for this service": token("mail", "ada", "read"), "allows nothing here": token("daybook", "ada", "openid")} {
		if status, text := g.ask(bad, http.MethodGet, "/api/executions", ""); status != http.StatusUnauthorized || !strings.Contains(text, want) {
			t.Errorf("%d %s, want %q", status, text, want)
		}
	}
	if status, text := g.ask("", http.MethodGet, "/readyz", ""); status != http.StatusOK {
		t.Errorf("/readyz: %d %s", status, text)
	}
}
