// Package mcp serves Daybook over the Model Context Protocol: tools that run scripts and
// read the ledger, resources, and tasks. The transports are stdio, Streamable HTTP and the
// legacy HTTP+SSE transport. One URL serves all revisions of Streamable HTTP: up to
// 2025-11-25 with transport sessions, and 2026-07-28 without.
//
// The package promises that each tenant has a server of its own, that no client can hold
// memory or connections without limit, and that every failed call returns a message that
// a model can act on. Internal errors are logged and not shown. A run continues when its
// client disconnects or the server closes; only a client that cancels a call of the
// stateless mode cancels the run.
//
// Each tool is one row of a table: its name, its arguments, the schema of its answer, and
// its function. The advertised schema and the check of the arguments come from this row.
// Tools of one kind share a file. A run can also be started as a task: the task is the
// execution, under the same id.
//
// The package decides no rules: it passes commands to the ledger and reads from the
// projections. It contains no NATS, SQLite or V8, and does not authenticate callers.
//
// The files, in reading order:
//
//   - ports.go: the interfaces of the write side and the read side
//   - server.go: Options, Server, and the order of all tools; the row of a tool, with its
//     description, is in the file of its kind, such as run.go
//   - tool.go: the type of a row, an answer, and the handler of a call
//   - schema.go, args.go: schemas of arguments and answers; the check of arguments
//   - errors.go: messages for errors
//   - caller.go: the client of a call, and the properties of its connection
//   - access.go: identities, scopes, and the owners of legacy connections
//   - run.go: run_js
//   - wait.go: calls that wait for the end of a run
//   - stateless.go: run_js of the stateless mode; waits for the end of an execution
//   - executions.go: tools for executions and their output
//   - preview.go: cuts long results and errors in answers
//   - heaps.go: tools for heaps and tags
//   - sessions.go: tools for the logs of named sessions
//   - logical.go, reset.go: tools for logical sessions
//   - context.go, contextuse.go: tools for conversation contexts; what calls note in them
//   - format.go: answers as text in a client's preferred format
//   - resources.go, watch.go, updates.go: resources by address, subscriptions to them, and
//     the notifications
//   - notifications.go: console output and progress of a run, while it executes
//   - tasks.go: the two forms of tasks
//   - taskcalls.go, taskmethods.go: calls that are answered with a task; the methods tasks/*
//   - taskwire.go: rewrites messages for the SDK
//   - params.go, unknown.go: checks params and names before the SDK does
//   - http.go: Streamable HTTP, and the form of its errors
//   - batch.go: JSON-RPC batches
//   - legacy.go: the HTTP+SSE transport
//   - transportsessions.go, boundsession.go: limits for transport sessions and for what a
//     request leaves in one
//   - sentevents.go: messages that a client can receive again after a broken connection
//   - stdio.go, lineconn.go, linecalls.go: one client over a pair of streams
//   - account.go, largecode.go: the memory of answers and of large requests
//   - fixtures.go: tools and resources of protocol test suites
package mcp
