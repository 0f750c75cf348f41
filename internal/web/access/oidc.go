package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"daybook/internal/redact"

	"github.com/coreos/go-oidc/v3/oidc"
)

// OIDCOptions configures an Issuer. Issuer and Audience are required.
type OIDCOptions struct {
	// Issuer is the URL of the OpenID Connect provider, exactly as in the iss claim of
	// its tokens. It must be https, except on loopback.
	Issuer string
	// Audience is the audience that tokens must have: the name of this service. Without
	// this check, a token for any other service of the issuer would be valid here.
	Audience string
	// TenantClaim is the name of the claim with the tenant. Default: "tenant". If
	// Tenant is not empty, it is the tenant of all tokens, and the claim is ignored.
	TenantClaim, Tenant string
	// ScopeClaim is the name of the claim with the scopes, which are a list or
	// separated by spaces. Default: "scope", or "scp" if a token has no scope claim.
	ScopeClaim string
	// BareScopes accepts the scopes sign and admin also without the prefix daybook:.
	BareScopes bool
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Logger receives changes of the issuer's availability. Default: slog.Default.
	Logger *slog.Logger
}

// algorithms lists the allowed signature algorithms. All need a private key: with a
// shared secret or without a signature, anyone who can read the public key could sign
// tokens.
var algorithms = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512,
	oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA,
}

// Issuer authenticates with the tokens of an OpenID Connect provider. It is safe for
// concurrent use. It starts no goroutine until a token comes, and then fetches the
// keys.
type Issuer struct {
	opts OIDCOptions
	keys *keys
}

// NewIssuer returns an Issuer. It makes no requests, because an unavailable issuer must
// not prevent the start of the service.
func NewIssuer(o OIDCOptions) (*Issuer, error) {
	u, err := url.Parse(o.Issuer)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("OIDC issuer %q: give the URL that its tokens have as iss, such as https://login.example.com", clip(redact.Address(o.Issuer)))
	case u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())):
		return nil, fmt.Errorf("OIDC issuer %q must be an https URL: over http, an intermediary could act as the issuer", clip(redact.Address(o.Issuer)))
	case o.Audience == "":
		return nil, errors.New("OIDC needs an audience: the name that the issuer gives this service in its tokens (aud)")
	case o.Tenant != "" && !validTenant(o.Tenant):
		return nil, fmt.Errorf("tenant %q is not 1 to 64 characters of a-z, 0-9, _ and -", clip(o.Tenant))
	}
	if o.TenantClaim == "" {
		o.TenantClaim = "tenant"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	client := &http.Client{
		Timeout: fetchTimeout,
		// The target of a redirect would not be checked, so redirects are not followed.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	k := &keys{issuer: o.Issuer, client: client, now: o.Now, log: o.Logger, keyTimeout: keyTimeout}
	return &Issuer{opts: o, keys: k}, nil
}

// Authenticate checks a token's signature, issuer, audience and times, and returns its
// tenant, principal and scopes. Errors are *TokenError and *UnavailableError. It may
// wait for the issuer for up to 2 s.
func (i *Issuer) Authenticate(ctx context.Context, token string) (Identity, error) {
	signature := &signature{keys: i.keys}
	t, err := oidc.NewVerifier(i.opts.Issuer, signature, &oidc.Config{
		ClientID:             i.opts.Audience,
		SupportedSigningAlgs: algorithms,
		Now:                  i.opts.Now,
	}).Verify(ctx, token)
	if down, ok := errors.AsType[*UnavailableError](signature.err); ok {
		return Identity{}, down
	}
	if err != nil {
		return Identity{}, refusedToken(err)
	}
	var claims map[string]json.RawMessage
	if err := t.Claims(&claims); err != nil {
		return Identity{}, badToken("the token's claims cannot be read")
	}
	id := Identity{Tenant: i.opts.Tenant, Principal: t.Subject, Expires: t.Expiry, Origin: "oidc"}
	if id.Tenant == "" {
		if json.Unmarshal(claims[i.opts.TenantClaim], &id.Tenant) != nil || !validTenant(id.Tenant) {
			return Identity{}, badToken("the token names no tenant: its claim %q must be 1 to 64 characters of a-z, 0-9, _ and -", i.opts.TenantClaim)
		}
	}
	if !validPrincipal(id.Principal) {
		return Identity{}, badToken("the token's subject (sub) must be 1 to %d visible ASCII characters without spaces", maxPrincipal)
	}
	if id.Scopes = granted(i.scopes(claims), i.opts.BareScopes); id.Scopes == 0 {
		return Identity{}, badToken("the token allows nothing here: ask the issuer for the scopes daybook:read, daybook:run, daybook:sign or daybook:admin")
	}
	return id, nil
}

func (i *Issuer) scopes(claims map[string]json.RawMessage) []string {
	raw := claims[i.opts.ScopeClaim]
	if i.opts.ScopeClaim == "" {
		if raw = claims["scope"]; raw == nil {
			raw = claims["scp"]
		}
	}
	var list []string
	if json.Unmarshal(raw, &list) == nil {
		return list
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return nil
	}
	return strings.Fields(text)
}

// Check returns the reason why tokens of the issuer cannot be verified now, or nil.
func (i *Issuer) Check(ctx context.Context) error { return i.keys.check(ctx) }

// refusedToken converts an error of the verifier to a *TokenError. The texts of the
// verifier may quote content of the token, which must not reach logs or other clients.
func refusedToken(err error) error {
	var expired *oidc.TokenExpiredError
	switch {
	case errors.As(err, &expired) && expired.Expiry.IsZero():
		return badToken("the token does not say when it expires (exp)")
	case errors.As(err, &expired):
		return badToken("the token expired on %s; get another from the issuer", expired.Expiry.UTC().Format(time.RFC3339))
	case strings.Contains(err.Error(), "expected audience"):
		return badToken("the token is not made out for this service; ask the issuer for one with its audience")
	case strings.Contains(err.Error(), "before the nbf"):
		return badToken("the token is not valid yet (nbf)")
	case strings.Contains(err.Error(), "different provider"):
		return badToken("the token is from another issuer")
	default:
		return badToken("the bearer token is not from the issuer, or its signature is invalid")
	}
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
