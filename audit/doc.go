// Package audit verifies ledgers and exports, and writes exports. Verify checks a ledger at rest,
// VerifyServer a running server, VerifyExport an export. Each computes the Merkle tree from the
// events and compares it with every checkpoint; for a partial export it checks the inclusion proofs
// instead. Each also checks the rules that hold between events. Export writes events, proofs and a
// checkpoint to a directory.
//
// Verification trusts only the keys that the caller gives. Without keys it uses those found beside
// the data, which detects accidents only, because anyone who can write the data can replace them:
// the verdict is then never Intact. A ledger that was set back or forked by the holder of the key is
// found only with checkpoints that the verifier kept.
// It reports all findings and repairs nothing. An error means that the check could not be
// completed; all problems of the data are in the Report. The same selection under the same
// checkpoint exports the same bytes.
//
// The package reads a running ledger through the interface Proofs and an audit directory through
// Directory. internal/translog implements both. docs/reference/proof-formats.md specifies every byte of an export.
//
// A running server checks itself elsewhere: its files at the start in internal/store/streamfiles,
// its events periodically in internal/translog. embed/volumeremoval.go decides whether a volume may
// be removed.
//
// Files, in reading order:
//
//	report.go       lists findings, and writes the report as text
//	cosigned.go     requires the cosignatures of witnesses; reads cosigned checkpoints for exports
//	signers.go      requires checkpoints of several signers; finds those of the other servers
//	verdict.go      decides the verdict; says what it means
//	verify.go       Verify: compares a ledger at rest with its checkpoints, the files of its tree
//	                and its blobs; finds missing positions
//	beside.go       reads the checkpoints of an audit directory one by one
//	known.go        compares checkpoints that the verifier kept, with the tree or by a proof
//	memory.go       Memory: the directory of keys and checkpoints that the verifier keeps
//	eventtimes.go   keeps the times of the newest events, by position
//	rules.go        checks the rules between events; lists the heaps and texts that events name
//	endedruns.go    keeps ended runs, sessions and named blobs in temporary files
//	losses.go       decides which broken rules lost events can explain
//	removal.go      checks removed volumes
//	volumeexport.go computes the file of events that an export of a volume must have; reads the
//	                range and the hash of a verified one
//	watch.go        Watch: checks the newest checkpoint of a server, and a sample of its events
//	trust.go        follows the statements about the signers; reports the ends of origins
//	recorded.go     reads the statements about the signers in the events of a ledger at rest
//	recenttiles.go  keeps the recent tiles of the computed tree in memory
//	pipeline.go     hashes and decodes in parallel, with results in order
//	source.go       Source: what can be exported; Local reads the ledger of this process
//	selection.go    decides which events an export contains, and which bounds its manifest names
//	export.go       Export: creates or resumes an export, writes its files
//	linereader.go   reads the files and the events of an export
//	verifylines.go  verifies the lines of an export or a server, and finds missing ones
//	verifyexport.go VerifyExport: compares the files of an export with its manifest
//	remote.go       Remote: reads a server as a Source; VerifyServer
//	slowserver.go   ends answers of servers that send too slowly
package audit
