// Package catalog lists what code may use, as TypeScript declarations: what the
// isolate has built in, and the tools of connected servers. Sessions are told of
// it entry by entry.
//
// It calls nothing and keeps nothing; who holds a Snapshot has what was offered
// at one moment.
package catalog
