// Package catalog lists what code may use, as TypeScript declarations: what the
// isolate has built in, and the tools of connected servers. Sessions are told of
// it entry by entry.
//
// It keeps nothing; who holds a Snapshot has what was offered at one moment. Open opens
// a session of the ledger with entries of a Snapshot, for every interface.
package catalog
