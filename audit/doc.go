// Package audit makes the ledger provable: a Merkle tree over its events
// (RFC 6962), kept as tiles (C2SP tlog-tiles) beside the stream; signed
// checkpoints of it (C2SP tlog-checkpoint); proofs; exports; and the
// verification of all of these without trusting who keeps them.
//
// It follows the stream and decides nothing: an event is recorded whether or not
// this package works. It does not repair what is damaged. docs/integrity.md
// specifies every byte it writes or hashes.
package audit
