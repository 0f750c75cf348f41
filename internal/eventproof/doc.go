// Package eventproof reads from events what they say about the tree of the ledger: their
// records, the checkpoints they hold, and the positions they name as lost.
package eventproof
