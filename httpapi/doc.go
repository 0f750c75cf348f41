// Package httpapi serves Daybook over HTTP: the REST operations under /api with their
// OpenAPI 3.1 document, output and events as live streams, health, metrics, and a few
// self-contained HTML pages. Handlers of other packages, such as MCP, are mounted behind
// the same checks.
//
// The package translates requests and makes no decisions: writes go to the ledger, reads
// to the projections, and events are read from the ledger unchanged. It knows no NATS,
// SQLite or V8.
//
// The package promises:
//
//   - Every route, including mounted ones, passes the same checks: Host and origin, limits
//     of header and body, deadlines for each read and write, security headers, and, with
//     authentication, a valid token. Each documented operation needs a scope, by default
//     that of its method. Handlers find the caller in the context of the request.
//   - Every error response of this package is a problem document (RFC 9457).
//   - A read includes all earlier writes through the same handler.
//   - A response that ends early does not look complete: the connection is cut, or the
//     last event of the stream is missing.
//   - A slow follower of events or output does not delay the other followers.
//
// The files, in reading order:
//
//   - options.go: the interfaces of the ledger, the projections and other parts; Options
//   - api.go: New, the state of the handlers, and the OpenAPI document
//   - router.go: registers operations and completes their documentation
//   - server.go: the limits of the HTTP server, and its shutdown
//   - middleware.go: checks of requests, and the responses to those without a route
//   - guard.go: hosts, origins, security headers, and the address to listen on
//   - auth.go: the callers of requests, their scopes and limits
//   - progress.go: the minimum speed of clients, and the memory of request bodies
//   - heavyreads.go: permits of operations that cost far more than their request
//   - request.go: the data of a request that handlers use; the stream type that its Accept
//     header asks for
//   - strictjson.go: decodes bodies strictly; parameters that may be absent
//   - errors.go: error responses, and the mapping of errors to them; logs responses that
//     ended early
//   - readyourwrites.go: reads that wait for a position; counts late reads
//   - exec.go, wait.go: submissions, and requests that wait for the end of a run
//   - executions.go, executiontext.go: executions, their host calls and texts
//   - largetext.go, array.go: encodes large responses in pieces
//   - output.go: output by page, and the stream of output to one client
//   - outputfeed.go: reads and encodes lines once for all followers; the rate of deliveries
//     to followers
//   - sse.go, eventstreams.go: writes server-sent events and JSON lines
//   - ledgerevents.go, livefeed.go: events of the ledger, read once for all followers
//   - sharedpages.go: shares pages of stored events and lines
//   - ledger.go, tiles.go: checkpoints, proofs, exports, blobs, and the tiles of the tree
//   - volumes.go: lists, seals and removes volumes
//   - damage.go, anomalies.go: damage, the scrub, and anomalies
//   - heaps.go, collect.go: heaps and their tags; deletes unused heaps
//   - resolve.go: finds ids by a prefix
//   - sessions.go, sessionturns.go, sessionreset.go: sessions of every kind, and resets
//   - logical.go, context.go: logical sessions and conversation contexts
//   - shred.go: shreds the content of a session
//   - replay.go, replayschedule.go: sends the events of a session again, with their pauses
//   - webhooks.go: webhooks and their dead letters
//   - service.go, readiness.go: version, health, and routes outside of the document
//   - pages.go, eventspage.go: the HTML pages
//   - schemas.go: completes the schemas of the document
package httpapi
