// Package proof is what proofs of a ledger are made of: the records of events and their
// leaves, the Merkle tree over them (RFC 6962) and its tiles (C2SP tlog-tiles), signed
// checkpoints (C2SP tlog-checkpoint), proofs, and the lines and the manifest of an export.
//
// It knows nothing of events and stores nothing. docs/integrity.md specifies every byte
// that it writes or hashes.
package proof
