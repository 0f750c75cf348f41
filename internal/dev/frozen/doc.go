// Package frozen tests that a data directory written by an earlier version gives the
// same answers with this version.
//
// testdata/directory.tar.zst is a data directory as a crash left it, with events of
// nearly all types: see TestFreeze. The other files below testdata hold the answers of
// the version that wrote it: each GET route of the REST API with its filters and pages,
// the whole ledger, exports, and reports of verifications. The tests compare the answers
// of this version with them. A change that only moves code passes them unchanged.
//
//	go test ./internal/dev/frozen
//
// Three things are not compared, because they differ between two runs of one version:
// the ids and times of conversation contexts that are not recorded, which each process
// creates on demand, the time that a verification took, and the paths of temporary
// directories.
//
// When an answer changes on purpose, write the golden files again and review each
// difference:
//
//	go test ./internal/dev/frozen -args -update
//
// This is allowed when CHANGELOG.md describes the change, and only new members of
// answers or corrected answers differ. It MUST NOT be done in a change that only
// restructures code, nor where recorded data differs: the ledger (ledger.jsonl), the
// blobs, the tiles, the proofs and the files of an export.
//
// The directory itself is written by hand, with the current version:
//
//	make freeze
//
// This discards the data of the earlier version. Do it only to add what the directory
// lacks, never to make a failing test pass. The archive holds signing keys, content keys
// and tokens. They were made for the test and protect nothing.
package frozen
