// Package translog keeps the Merkle tree of a running ledger: it follows the stream, hashes
// each event, keeps the tree as tiles beside the stream, and signs checkpoints.
//
// It decides nothing: an event is recorded whether or not this package works.
package translog
