// Package projections is the read side of Daybook: SQLite tables derived from the events
// of the ledger, and the queries that read them.
//
// The package promises that its file holds nothing that cannot be rebuilt from the ledger,
// and that a rebuild gives the same rows as applying the events one by one. The position
// of the last applied event is committed with the rows, so each event takes effect exactly
// once. The write side never reads the file.
//
// The files, in reading order:
//
//   - schema.go: tables and schema version
//   - store.go: Store: open, close, the applied position, damage, anomalies, memory
//   - run.go: applies batches of events, each in one transaction
//   - statements.go: the prepared statements of the applier
//   - apply.go: events of executions, named sessions and tags; collected and lost heaps
//   - apply_output.go, chunk.go: output, and the stored form of its chunks
//   - calls.go: host calls: table, events and query
//   - apply_tags.go: current tags and their index
//   - apply_logical.go, apply_agents.go: logical sessions and ACP sessions
//   - apply_contexts.go, context_fold.go, context_calls.go: conversation contexts, their
//     content, and the host calls in it
//   - apply_shred.go, apply_removal.go: erased content and removed volumes
//   - usage.go: resource usage of each tenant
//   - watch.go, pendingentries.go: signals for waiting readers
//   - stall.go: a file that cannot be written for now
//   - checkpoint.go: moves the log to the file
//   - rebuild.go, checksum.go: rebuilds or removes a file; checks a closed one
//   - anomalies.go: events whose effect was left out
//   - lostkeys.go: content that cannot be decrypted
//   - model.go: parameters and results of the queries; httpapi returns these results as
//     JSON without a type of its own
//   - executions.go, list.go, resolve.go: one execution, lists, abbreviated ids
//   - page.go, lines.go, trace.go: output by page and its beginning, output by line, and
//     the steps of a run
//   - heaps.go, tags.go: heaps, lineage, and heaps by tag
//   - sessions.go, sessionlist.go, logical.go, acpsessions.go: session logs, sessions of
//     every kind, logical sessions, ACP sessions
//   - context.go: conversation contexts
//   - removals.go: executions that depend on a volume, and errors for removed ones
//   - cursor.go: cursors and pages of lists
package projections
