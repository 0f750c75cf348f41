// Package contextstore keeps the conversation context of each client: preferences, the
// last tool calls, the resources read, values set by the client, and earlier calls with
// their results. With it, a model need not repeat the calls of its session.
//
// The ledger is the only source of a context. Package projections folds the context
// from events. This package records the events that no other package records, expires
// idle contexts, and caches contexts in memory within bounds. An evicted context is
// read again from the projections without loss.
//
// The server decides which context a call uses. It builds a Key from the connection, the
// session and the token of the call, never from an argument that names a context.
//
// The files, in reading order:
//
//   - options.go: the ports Log and Views, and Options with their defaults
//   - key.go: Key, which selects a context
//   - store.go: Store: reads, edits, clearing and expiry of one context; reads that record nothing
//   - cache.go: the cache of contexts, their locks, and eviction
//   - edit.go: patches of preferences and values, and their bounds
//   - note.go: notes of calls and resources, and how they are recorded
//   - pending.go: notes of one context that are not yet recorded
//   - arguments.go: arguments of calls, shortened and without secrets
//   - run.go: the background work: recording notes, expiring idle contexts
//   - health.go: health, statistics and the histogram of reads
//   - errors.go: the errors that clients get
package contextstore
