// Package contextstore keeps the conversation context of each client: preferences, the
// last tool calls, the resources read, values set by the client, and earlier calls with
// their results. With it, a model need not repeat the calls of its session.
//
// The ledger is the only source of a context. Package projections folds the context
// from events. This package records the events that no other package records, expires
// idle contexts, and caches contexts in memory within bounds. An evicted context is
// read again from the projections without loss.
//
// The adapters decide which context is used: mcp/context.go for a call, acp/prompt.go
// for the run of a prompt. They build a Key from the connection, the session and the
// token, never from an argument that names a context. How many calls a context lists,
// and when they are summarized, is decided in projections/context_fold.go.
//
// The files, in reading order:
//
//   - options.go: the ports Log and Views, and Options with their defaults
//   - key.go: Key, which selects a context; derives the recorded key from it
//   - store.go: reads, sets and clears one context; decides when it has expired, and records
//     that; reads that record nothing
//   - cache.go: decides which contexts stay in memory; locks one for a call
//   - load.go: reads a context into memory; waits until its recorded notes can be read
//   - edit.go: applies a patch of preferences and values; limits both, and refuses secrets
//   - note.go: notes calls and resources; decides which note is recorded immediately; records
//     them
//   - pending.go: merges the notes that are not yet recorded, and drops the oldest over a limit
//   - arguments.go: applies package redact to the arguments of calls
//   - run.go: periodically records notes and expires idle contexts
//   - health.go: decides whether the store is healthy; statistics and the histogram of reads
//   - errors.go: converts errors to those that clients get
package contextstore
