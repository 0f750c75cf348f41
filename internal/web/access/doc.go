// Package access identifies the caller of a request and decides what it may do: with
// bearer tokens from a file, tokens of an OpenID Connect issuer, their scopes, limits
// per tenant, and an even share of the server for the changes of tenants.
//
// The package knows no routes and no tools. The adapters call it and translate its
// errors into their protocols:
//
//	*TokenError        no token, or an invalid one            401
//	*ScopeError        a valid token without the scope        403
//	*LimitError        over a rate or a quota                 429
//	*UnavailableError  no token can be checked now            503
//
// A token is a secret: no error and no log line of this package contains a token, or
// any part of one except its public id.
//
// The files, in reading order:
//
//   - identity.go: Identity, and the interface of authenticators
//   - scope.go: the scopes
//   - token.go: reads the token from the headers of a request; the form of tokens, and the
//     records of a token file
//   - file.go: TokenFile, which authenticates with a token file
//   - edit.go: creates and revokes tokens in a file
//   - oidc.go: Issuer, which authenticates with tokens of an OpenID Connect provider
//   - keys.go: fetches and caches the public keys of an issuer
//   - limits.go: Limits, all limits of a tenant, and Quotas: rates, streams and runs
//   - kept.go: enforces the limits of what a tenant keeps permanently: sessions, names, tagged
//     heaps
//   - changes.go: admits changes, bounded by what the projections have not applied
//   - share.go: divides the time for changes among tenants
//   - speed.go: measures how fast this machine makes changes
//   - errors.go: the errors
package access
