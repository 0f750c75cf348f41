// Package audit verifies ledgers and exports, and writes exports. Verify checks a ledger at rest,
// VerifyServer a running server, VerifyExport an export. Each computes the Merkle tree from the
// events and compares it with every checkpoint; for a partial export it checks the inclusion proofs
// instead. Each also checks the rules that hold between events. Export writes events, proofs and a
// checkpoint to a directory.
//
// Verification trusts only the keys that the caller gives. Without keys it uses those found beside
// the data, which detects accidents only, because anyone who can write the data can replace them.
// It reports all findings and repairs nothing. An error means that the check could not be
// completed; all problems of the data are in the Report. The same selection under the same
// checkpoint exports the same bytes.
//
// It reads a running ledger through the interface Proofs and an audit directory through Directory.
// internal/translog implements both. docs/integrity.md specifies every byte of an export.
//
// Files, in reading order:
//
//	report.go       Report and its verdict
//	verify.go       Verify: the tree, checkpoints and blobs of a ledger at rest
//	rules.go        the rules between events; the heaps and texts that events name
//	removal.go      removed volumes
//	recenttiles.go  recent tiles of the tree that is computed
//	pipeline.go     hashing and decoding in parallel, results in order
//	source.go       Source: what can be exported; Local: the ledger of this process
//	selection.go    the events that a selection contains
//	export.go       Export
//	linereader.go   reading the files and the events of an export
//	verifylines.go  verifying the lines of an export or a server
//	verifyexport.go VerifyExport
//	remote.go       Remote: a server as a Source; VerifyServer
package audit
