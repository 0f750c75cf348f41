// Package translog keeps the Merkle tree of a running ledger. Its Log follows the stream, hashes
// each event, stores the tree as tiles in the audit directory, signs checkpoints, appends them to
// the ledger and sends them to a witness. It also makes proofs, and compares the stored events
// with their hashes (Scrub).
//
// The ledger does not depend on it: events are recorded whether or not a Log runs. A Log never
// signs a tree that contradicts an earlier checkpoint. It reports damage and does not repair it,
// with one exception: the scrub rewrites a tile whose events are intact. All files of the audit
// directory except the key and the identity can be computed again, unless volumes were removed.
//
// Files, in reading order:
//
//	log.go          Log: opens the directory, follows the stream, checks checkpoints
//	sign.go         when to sign, and waiting for a checkpoint
//	closing.go      the closing checkpoint of a volume
//	preserve.go     the hashes of a volume before it is removed
//	prover.go       proofs under a checkpoint
//	key.go          ledger identity, signing key and verification keys
//	checkpoints.go  the file of checkpoints
//	tilefiles.go    the files of the tree
//	durable.go      the size of the tree that is on disk
//	dir.go          an audit directory: for verification, the highest position that it proves,
//	                replacing its files
//	loss.go         leaves of lost events that the files prove; resetting the tree
//	witness.go      sending checkpoints to a witness
//	scrub.go        comparing the stored events with their hashes
package translog
