// Package httpapi serves Daybook over HTTP: the REST endpoints under /api with
// their OpenAPI 3.1 document, live output and events as server-sent events,
// health, metrics, and two self-contained pages. What other packages serve (MCP,
// a console) is mounted behind the same checks.
//
// The package translates and decides nothing: writes go to the ledger, reads to
// the projections, the event log is passed through. Every route, mounted ones
// included, is behind the same guard: allowed Host, same origin, bounded body
// and headers, deadlines on each read and write, security headers, and, if asked
// for, a good token. Each documented operation needs a scope, by default that of
// its method; mounted handlers find the identity in the request's context.
//
// It knows no NATS, SQLite or V8.
package httpapi
