// Package datadir locks the data directory of a ledger: one process at a time owns it. Its
// only other file is lock.go.
package datadir
