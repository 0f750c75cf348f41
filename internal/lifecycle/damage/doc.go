// Package damage holds the known damage of a ledger, and the high-water mark: the
// highest position that is known to be stored.
//
// State is the list of findings. The startup check, reads and the scrub report findings
// to it, and status pages and metrics read them. A finding about the ledger makes the
// server read-only. A finding about a blob affects only the executions and reads that
// need that blob. HighWaterMark keeps its position in a file apart from the ledger, so
// a ledger that ends below it has lost events.
//
// The package finds no damage and repairs none. It knows neither streams nor HTTP. The
// scrub is in package translog.
//
// The files, in reading order:
//
//   - state.go: Finding, and State, which lists findings and decides whether the ledger is damaged
//   - highwater.go: HighWaterMark and the format of its file
package damage
