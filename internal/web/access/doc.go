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
// Which scope an operation needs is decided in httpapi/router.go, and which one a tool needs
// in mcp/access.go. internal/admission applies the limits to runs and changes.
//
// The files, in reading order:
//
//   - identity.go: Identity; decides which authority checks a token; the permitted names of
//     tenants
//   - scope.go: the scopes, their names at an issuer, and whether a set contains one
//   - token.go: reads the token from the headers of a request; decides whether a token of a
//     file was revoked or has expired
//   - file.go: TokenFile: authenticates with a token file; decides when it is read again, and
//     how long earlier tokens stay valid
//   - edit.go: creates and revokes tokens in a file
//   - oidc.go: Issuer: checks tokens of an OpenID Connect provider, and finds the tenant and
//     the scopes in them
//   - keys.go: verifies signatures; decides when the public keys of an issuer are fetched
//     again
//   - limits.go: Limits, all limits of a tenant; Quotas: enforces rates, streams, runs and
//     stored bytes; counts the refusals of every limit
//   - kept.go: enforces the limits of what a tenant keeps permanently: sessions, names, tagged
//     heaps
//   - changes.go: decides which events are changes of a client; delays and refuses changes
//     while too many are not applied to the projections
//   - share.go: decides how long a change waits while other tenants make changes
//   - speed.go: measures how fast this machine makes changes, and scales their costs
//   - errors.go: the errors, their texts, and when to try again
package access
