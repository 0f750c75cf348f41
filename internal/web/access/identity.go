package access

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"daybook/events"
)

// Identity is who a request is from. It is a value and never changes.
type Identity struct {
	// Tenant is whose data the request may see.
	Tenant string
	// Principal is recorded as the actor of what the request does.
	Principal string
	// Scopes is what it may do.
	Scopes Scopes
	// Expires is when the identity ends; zero for never.
	Expires time.Time
	// Origin tells apart equal names given by different authorities: "token",
	// "oidc", or empty for somebody who needed no token.
	Origin string
}

// Anybody is the identity of requests where no token is asked for.
func Anybody() Identity {
	return Identity{Tenant: events.DefaultTenant, Principal: "anonymous", Scopes: AllScopes}
}

// User names the person or program behind an identity, the same for every token
// it ever gets and for nobody else. What was begun under one User may be
// continued under it only.
func (i Identity) User() string { return i.Origin + "|" + i.Tenant + "|" + i.Principal }

// TokenUser is User, or empty for a request that needed no token.
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

// From returns the identity With put into a context, and whether there is one.
func From(ctx context.Context) (Identity, bool) {
	i, ok := ctx.Value(identityKey{}).(Identity)
	return i, ok
}

// maxPrincipal bounds a principal, in bytes: what the ledger records whole.
const maxPrincipal = 256

var (
	tenantForm    = regexp.MustCompile(`^[a-z0-9_-]{1,64}$`)
	principalForm = regexp.MustCompile(`^[\x21-\x7e]+$`)
)

// validTenant and validPrincipal are the forms that subjects and records allow.
func validTenant(s string) bool { return tenantForm.MatchString(s) }

// CheckTenant returns an error unless a name can be that of a tenant.
func CheckTenant(s string) error {
	if !validTenant(s) {
		return fmt.Errorf("%q is no tenant: a tenant has 1 to 64 lowercase letters, digits, _ and -", s)
	}
	return nil
}

func validPrincipal(s string) bool { return len(s) <= maxPrincipal && principalForm.MatchString(s) }

// Authenticator tells whose a token is. Its errors are *TokenError and
// *UnavailableError.
type Authenticator interface {
	Authenticate(ctx context.Context, token string) (Identity, error)
	// Check returns why the authenticator cannot be relied on now, or nil.
	Check(ctx context.Context) error
}

// Authenticators asks the one authority that can know a token: those of
// a token file by their prefix, all others at the issuer. Either may be nil.
type Authenticators struct {
	Tokens Authenticator
	Issuer Authenticator
}

// Authenticate asks the authority in charge.
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

// Check returns the first problem of any authority.
func (a Authenticators) Check(ctx context.Context) error {
	for _, one := range slices.DeleteFunc([]Authenticator{a.Tokens, a.Issuer}, func(a Authenticator) bool { return a == nil }) {
		if err := one.Check(ctx); err != nil {
			return err
		}
	}
	return nil
}
