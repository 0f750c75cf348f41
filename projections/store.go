// Package projections is the read side of Daybook: SQLite tables folded from
// the ledger, and the queries answered from them.
package projections
