package access

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"daybook/events"
)

// Identity is the authenticated caller of a request. It is an immutable value.
type Identity struct {
	// Tenant is the tenant whose data the request may access.
	Tenant string
	// Principal is recorded as the actor of the events that the request causes.
	Principal string
	// Scopes is what the request may do.
	Scopes Scopes
	// Expires is the expiry of the identity. Zero means never.
	Expires time.Time
	// Origin is the authority that issued the identity: "token", "oidc", or empty for a
	// request without a token. It separates equal names of different authorities.
	Origin string
}

// Anonymous returns the identity of requests to a server without authentication.
func Anonymous() Identity {
	return Identity{Tenant: events.DefaultTenant, Principal: "anonymous", Scopes: AllScopes}
}

// User returns a key for the person or program behind an identity. All tokens of a person
// or program have the same key, and no others have this key. What was started with one key
// may only be continued with the same key.
func (i Identity) User() string { return i.Origin + "|" + i.Tenant + "|" + i.Principal }

// TokenUser returns User, or "" for a request without a token.
func (i Identity) TokenUser() string {
	if i.Origin == "" {
		return ""
	}
	return i.User()
}

// Require returns a *ScopeError unless the identity has the scope.
func (i Identity) Require(s Scope) error {
	if i.Scopes.Has(s) {
		return nil
	}
	return &ScopeError{Missing: s, Has: i.Scopes}
}

type identityKey struct{}

// With returns a context that carries an identity.
func With(ctx context.Context, i Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, i)
}

// From returns the identity in a context, and whether there is one.
func From(ctx context.Context) (Identity, bool) {
	i, ok := ctx.Value(identityKey{}).(Identity)
	return i, ok
}

// maxPrincipal bounds a principal, in bytes. The ledger records a principal of this length
// without cutting it.
const maxPrincipal = 256

var (
	tenantForm    = regexp.MustCompile(`^[a-z0-9_-]{1,64}$`)
	principalForm = regexp.MustCompile(`^[\x21-\x7e]+$`)
)

// validTenant and validPrincipal check the forms that subjects and events allow.
func validTenant(s string) bool { return tenantForm.MatchString(s) }

// CheckTenant returns an error if s is not a valid tenant.
func CheckTenant(s string) error {
	if !validTenant(s) {
		return fmt.Errorf("%q is no tenant: a tenant has 1 to 64 lowercase letters, digits, _ and -", s)
	}
	return nil
}

func validPrincipal(s string) bool { return len(s) <= maxPrincipal && principalForm.MatchString(s) }

// Authenticator identifies the owner of a token. Its errors are *TokenError and
// *UnavailableError.
type Authenticator interface {
	Authenticate(ctx context.Context, token string) (Identity, error)
	// Check returns the reason why the authenticator cannot check tokens now, or nil.
	Check(ctx context.Context) error
}

// Authenticators selects the authority for a token: Tokens for tokens with the form of
// a token file, Issuer for all others. Either may be nil.
type Authenticators struct {
	Tokens Authenticator
	Issuer Authenticator
}

// Authenticate calls the authority for the token.
func (a Authenticators) Authenticate(ctx context.Context, token string) (Identity, error) {
	switch ours := tokenForm.MatchString(token); {
	case ours && a.Tokens != nil:
		return a.Tokens.Authenticate(ctx, token)
	case !ours && a.Issuer != nil:
		return a.Issuer.Authenticate(ctx, token)
	default:
		return Identity{}, unknownToken()
	}
}

// Check returns the first error of the authorities.
func (a Authenticators) Check(ctx context.Context) error {
	for _, one := range slices.DeleteFunc([]Authenticator{a.Tokens, a.Issuer}, func(a Authenticator) bool { return a == nil }) {
		if err := one.Check(ctx); err != nil {
			return err
		}
	}
	return nil
}
