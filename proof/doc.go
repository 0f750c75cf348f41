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
//	leaf.go        Record: decides which headers are hashed; computes the leaf hash of an event,
//	               and of a position without one
//	path.go        Tile: its width, and its path
//	tree.go        Tree: adds leaves, reads tiles, computes tree hashes
//	proof.go       checks inclusion and consistency proofs. internal/translog makes them
//	checkpoint.go  Checkpoint: parses, verifies, signs; checks the form of verification keys
//	line.go        writes and parses the lines of an export: events and proofs
//	manifest.go    writes and parses the manifest; sets the bounds of a selection; the names of
//	               the files of an export
package proof
