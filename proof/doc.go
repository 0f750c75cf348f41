// Package proof implements what the proofs of a ledger consist of: event records and their leaf
// hashes, the Merkle tree (RFC 6962) and its tiles (C2SP tlog-tiles), signed checkpoints (C2SP
// tlog-checkpoint), cosignatures and policies of witnesses (C2SP tlog-cosignature, tlog-policy), inclusion
// and consistency proofs, and the lines and the manifest of an export.
//
// Programs that check a ledger import it. It imports golang.org/x/mod/sumdb and the standard
// library, and no other package of this module. It reads and writes no files. The encodings never
// change: the same input gives the same bytes in every version. The parsers of tile paths, proofs,
// manifests and lines reject text that the encoder would write differently.
// docs/reference/proof-formats.md specifies every byte.
//
// Files, in reading order:
//
//	leaf.go        Record: decides which headers are hashed; computes the leaf hash of an event,
//	               and of a position without one
//	path.go        Tile: its width, and its path
//	tree.go        Tree: adds leaves, reads tiles, computes tree hashes
//	proof.go       checks inclusion and consistency proofs. internal/translog makes them
//	note.go        Note: parses and writes signed notes
//	checkpoint.go  Checkpoint: parses, verifies, signs; checks the form of verification keys
//	cosignature.go WitnessKey, WitnessSigner: verify and make cosignatures of checkpoints
//	policy.go      Policy: parses policies, and decides whether enough witnesses cosigned
//	statement.go   Statement: starts an origin, introduces or retires a key; parses and signs
//	signers.go     Signers: the list of statements; what a verifier can trust who follows it
//	key.go         makes and parses signing keys. internal/keyfile has their files
//	line.go        writes and parses the lines of an export: events and proofs
//	payload.go     CheckPayload: refuses payloads that readers could understand differently
//	manifest.go    writes and parses the manifest; sets the bounds of a selection; the names of
//	               the files of an export
package proof
