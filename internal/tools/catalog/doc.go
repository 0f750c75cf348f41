// Package catalog lists the APIs that code may use as TypeScript declarations: the
// globals of an isolate and the tools of connected servers. An entry is one such API.
// Sessions are expanded entry by entry.
//
// The package stores nothing. A Snapshot holds the entries that were available at one
// moment and does not change. Open opens a session of the ledger with entries of a
// Snapshot, for every interface.
//
// The files, in reading order:
//
//   - catalog.go: Catalog, its sources, and seeds as names of entries
//   - builtin.go: the entries of the isolate's globals
//   - rank.go: the search for entries
//   - table.go: entries as one TypeScript text
//   - open.go: sessions that are opened with entries
package catalog
