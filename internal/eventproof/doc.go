// Package eventproof reads from events what they state about the tree of the ledger: their
// records, checkpoints and lost positions. The log of a running ledger (internal/translog) and
// verification (audit) share it. Therefore neither imports the other, and package proof does not
// import package events.
//
// Files, in reading order:
//
//	checkpoint.go  the checkpoint that an event holds; events as records of package proof, and back
//	statement.go   compares an event about the signers with its statement
//	gap.go         the leaves of positions without an event
package eventproof
