// Package mcp serves Daybook over the Model Context Protocol: tools that run scripts and
// read the ledger, resources, and tasks. The transports are stdio, Streamable HTTP and the
// legacy HTTP+SSE transport. One URL serves all revisions of Streamable HTTP: up to
// 2025-11-25 with transport sessions, and 2026-07-28 without.
//
// The package promises that each tenant has a server of its own, that no client can hold
// memory or connections without limit, and that every failed call returns a message that a
// model can act on. Internal errors are logged and not shown. A run continues when its
// client disconnects or the server closes. Only in the stateless mode can the end of a
// call cancel its run: if the client cancels the call, or disconnects under a revision of
// Streamable HTTP without transport sessions.
//
// Each tool is one row of a table: its name, its arguments, the schema of its answer, and
// its function. The advertised schema and the check of the arguments come from this row.
// Tools of one kind share a file. A run can also be started as a task: the task is the
// execution, under the same id.
//
// The package decides no rules: it passes commands to the ledger and reads from the
// projections. It contains no NATS, SQLite or V8, and does not authenticate callers.
//
// Some decisions about calls are made elsewhere: whether a tenant is at a limit in
// internal/web/access, what is refused at a shutdown or for lack of disk space in
// internal/admission, what a conversation context keeps in internal/contextstore, and what is
// sent again to the next owner in internal/link.
//
// The files, in reading order:
//
//   - ports.go: declares the interfaces of the write side and the read side
//   - server.go: Options, Server; lists all tools, the instructions and the middleware; the
//     description of a tool is in the file of its kind, such as run.go
//   - tool.go: the type of a row; makes the checks of a call, in order; decides how long a
//     call waits until its event can be read
//   - schema.go: writes the schemas of arguments and answers that clients see
//   - args.go: decodes arguments, and refuses wrong ones
//   - errors.go: words the message of each failed call, and logs internal errors
//   - caller.go: finds the actor of a call, its session name and its connection
//   - access.go: checks tokens; decides which scope a tool or method needs; decides which
//     caller may use a legacy connection
//   - run.go: run_js: submits a run, or decides to answer with an earlier equal one; answers
//     with the receipt or the ended run
//   - wait.go: wait_secs: limits the wait for the end of a run; decides what the answer
//     contains; the loop that waits for the end of a run, for all tools and modes
//   - stateless.go: run_js of the stateless mode; cancels the run of a client that has
//     cancelled its call or disconnected
//   - executions.go: reads, lists and cancels executions; decides which members of an
//     execution a client sees; reads output
//   - artifacts.go: decides which artifacts an answer contains; reads artifacts as resources
//   - preview.go: decides how much of a long result or error an answer contains
//   - heaps.go: finds heaps by tags; reads, replaces and deletes tags
//   - sessions.go: lists named sessions and their entries
//   - logical.go: searches the catalog and opens logical sessions; finds the session that a
//     call names
//   - reset.go: resets a session; finds a session by ref, name or id
//   - context.go: reads, changes and clears conversation contexts; decides which context a
//     call belongs to
//   - contextuse.go: decides which calls are noted in a context; looks up earlier equal
//     calls; applies preferences
//   - format.go: writes answers as text in a client's preferred format
//   - resources.go: reads objects by address; refuses unknown addresses
//   - watch.go: decides when a watched address has changed; limits the watched addresses
//   - updates.go: sends the notifications of changes, so that a client that does not read
//     delays no other one
//   - notifications.go: decides when console output and progress of a run are sent, and at
//     which level
//   - tasks.go: decides which of the two forms of tasks a client uses; writes an execution as
//     a task
//   - taskcalls.go: decides whether a call is answered with a task
//   - taskmethods.go: the methods tasks/*: reads, lists and cancels tasks, and waits for
//     results
//   - taskwire.go: rewrites messages that the SDK does not know; refuses bodies that are no
//     message
//   - params.go: refuses params that lack their form, and a second initialize, before the SDK
//     does
//   - unknown.go: refuses unknown tools, prompts, levels and cursors before the SDK does
//   - http.go: Streamable HTTP and HTTP+SSE: decides by revision how a request is served;
//     opens sessions; writes errors; the limit of a message's size
//   - batch.go: decides whether a JSON-RPC batch is permitted, and counts its messages
//   - legacy.go: a connection of the HTTP+SSE transport; limits its unanswered messages
//   - transportsessions.go: limits transport sessions and the calls of each; decides which
//     idle session is closed, and after which time
//   - boundsession.go: limits the params of initialize, progress tokens and requests of a
//     session
//   - sentevents.go: stores messages that a client can receive again after a broken
//     connection, and decides which are dropped
//   - stdio.go, lineconn.go: serves one client over a pair of streams; decides what happens
//     at their end
//   - linecalls.go: limits the unanswered calls of such a client
//   - account.go: takes the memory for answers; waits for the permits of heavy reads
//   - largecode.go: takes the memory for large requests, and passes their code beside the
//     message
//   - fixtures.go: adds the tools and resources of protocol test suites
package mcp
