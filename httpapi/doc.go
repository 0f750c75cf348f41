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
// Some decisions about requests are made elsewhere: which token is valid and whether a tenant
// is at a limit in internal/web/access, which host is foreign in internal/web, how often a
// follower gets new events or output in internal/web/feed, which heavy read is next in
// internal/resources/reads, what is refused at a shutdown or for lack of disk space in
// internal/admission, and whether the server is ready in embed/interfaces.go.
//
// The files, in reading order:
//
//   - options.go: declares the interfaces through which the handlers call the ledger, the
//     projections and other parts; Options
//   - api.go: New; lists the topics whose operations are served; the introduction of the
//     OpenAPI document
//   - router.go: registers an operation and its documentation: decides which scope it needs
//     by default, and whether a request waits for memory
//   - server.go: limits the size and the time of request headers; ends streams when the
//     server shuts down
//   - middleware.go: makes the checks of every request, in order; limits the size of a body;
//     refuses malformed queries; answers requests without a route
//   - guard.go: words the refusal of a host or origin; sets security headers; refuses to
//     listen beyond loopback without authentication
//   - auth.go: decides which paths need no token; checks the token and the scope; counts
//     requests and streams; ends a stream when its token is no longer valid
//   - progress.go: ends requests of clients that send or receive too slowly; takes the memory
//     for request bodies
//   - heavyreads.go: marks operations that cost far more than their request, and waits for
//     their permit
//   - request.go: finds the tenant and the actor of a request; decides by its Accept header
//     whether the response is a stream
//   - strictjson.go: refuses bodies that are compressed, not in UTF-8 or not JSON; decodes JSON
//     bodies, and refuses unknown, repeated and mistyped members; parameters that may be absent
//   - errors.go: decides the status, the members and Retry-After of each error response; logs
//     responses that ended early
//   - readyourwrites.go: makes a read wait until the projections have applied earlier writes,
//     and refuses it after a timeout; counts late reads
//   - exec.go: reads a submission, as JSON or as the script itself, and answers it
//   - wait.go: makes a request wait for the end of a run, and limits the wait
//   - executions.go: lists, reads and cancels executions; reads their events and host calls
//   - artifacts.go: lists and sends artifacts; sets headers under which no browser runs them
//   - executiontext.go: sends the complete code, result, error or files of an execution
//   - largetext.go, array.go: writes a response with large texts, or a long list, in pieces
//   - output.go: reads output by page, and decides which pages are heavy; sends the stream of
//     output to one client, and decides how it ends
//   - sse.go: writes server-sent events; the interval of heartbeats
//   - eventstreams.go: writes events of the ledger as server-sent events or as JSON lines
//   - ledgerevents.go: lists events of the ledger, and follows them for one client: first the
//     stored ones, then new ones
//   - ledger.go: reads and requests checkpoints; reads proofs and exports
//   - signers.go: reads and changes the list of signing keys
//   - blobs.go: reads blobs; sends the last bytes of one only if it matches its hash
//   - tiles.go: reads the tiles of the tree, and creates entry bundles
//   - volumes.go: lists, seals and removes volumes; decides who is the operator
//   - damage.go, anomalies.go: reports damage, the scrub, and anomalies with advice
//   - heaps.go: lists heaps and their lineage; reads, replaces and deletes tags
//   - modules.go: admits, lists and removes the packages that scripts import
//   - heapglobals.go: lists the globals of a heap
//   - collect.go: deletes unused heaps when a client requests it
//   - resolve.go: finds the id that a prefix or @last means
//   - sessions.go: finds the session that a text means, and those of an execution; lists
//     sessions and session entries
//   - sessionturns.go, sessionreset.go: reads the newest turns of a session; resets a session
//   - logical.go: opens, lists and reads logical sessions
//   - context.go: reads, changes and clears conversation contexts; decides which context a
//     submission belongs to
//   - shred.go: shreds the content of a session
//   - whatif.go: executes other code with the inputs of a recorded run and answers with what differs
//   - replayexecution.go: executes a recorded run again and answers with the verdict
//   - migrateheap.go: migrates a heap of another engine and answers with the verdict
//   - replay.go: sends or publishes the events of a session again, for one request
//   - replayschedule.go: computes the pauses of a replay
//   - webhooks.go: adds, lists and deletes webhooks; lists and retries dead letters
//   - service.go: answers with version, health and readiness; adds the routes outside of the
//     document
//   - readiness.go: shares one readiness check among requests
//   - landing.go: decides which counts a visitor of the landing page sees
//   - eventspage.go: decides which events a browser gets. internal/web/pages renders the pages
//   - schemas.go: describes members of answers by name, and completes the schemas of the
//     document: closes those of bodies
package httpapi
