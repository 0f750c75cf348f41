// Package catalog lists the APIs that code may use as TypeScript declarations: the
// globals of an isolate and the tools of connected servers. An entry is one such API.
// Sessions are expanded entry by entry.
//
// The package stores nothing. A Snapshot holds the entries that were available at one
// moment and does not change. Open opens a session of the ledger with entries of a
// Snapshot, for every interface.
//
// ledger/expand.go decides which symbols the entries get in a session and which of them are
// new to it.
//
// The files, in reading order:
//
//   - catalog.go: Catalog: collects the entries of all sources; finds the entries that seeds
//     name, or similar names
//   - builtin.go: the entries of the isolate's globals
//   - rank.go: decides which entries a search finds, and in which order
//   - table.go: writes entries as one TypeScript text
//   - open.go: opens a logical session with entries, or adds them to it
package catalog
