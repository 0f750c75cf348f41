// Package proof implements what the proofs of a ledger consist of: event records and their leaf
// hashes, the Merkle tree (RFC 6962) and its tiles (C2SP tlog-tiles), signed checkpoints (C2SP
// tlog-checkpoint), inclusion and consistency proofs, and the lines and the manifest of an export.
//
// Programs that check a ledger import it. It imports golang.org/x/mod/sumdb and the standard
// library, and no other package of this module. It reads and writes no files. The encodings never
// change: the same input gives the same bytes in every version. The parsers of tile paths, proofs,
// manifests and lines reject text that the encoder would write differently. docs/integrity.md
// specifies every byte.
//
// Files, in reading order:
//
//	leaf.go        Record, its bytes and its leaf hash; the leaf of a position without an event
//	path.go        Tile and its path
//	tree.go        Tree: add leaves, read tiles, compute tree hashes
//	proof.go       Inclusion, Consistency and their checks
//	checkpoint.go  Checkpoint: parse, verify, sign; the form of verification keys
//	line.go        the lines of an export: events and proofs
//	manifest.go    the manifest of an export and its selection
package proof
