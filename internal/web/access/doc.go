// Package access decides who a request is from and what it may do: bearer
// tokens from a file, tokens of an OpenID Connect issuer, the scopes they carry,
// and how much each tenant may use.
//
// It knows no route and no tool. The adapters ask it and translate its few
// errors into their protocol:
//
//	*TokenError        no token, or not a good one           401
//	*ScopeError        a good token that may not do this      403
//	*LimitError        over a rate or a quota                 429
//	*UnavailableError  nobody can be identified right now     503
//
// A token is a secret: no error and no log line of this package holds one, or a
// part of one past its public id.
package access
