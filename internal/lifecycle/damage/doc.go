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
// scrub is in package translog. embed/damage.go compares the files with the marks at the
// start, and embed/recovery.go continues after accepted damage.
//
// The files, in reading order:
//
//   - state.go: Finding, and State, which lists findings and decides whether the ledger is
//     damaged and read-only; the advice to the operator
//   - highwater.go: HighWaterMark: writes and reads the highest position in its file
package damage
