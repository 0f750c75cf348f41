// Package translog keeps the Merkle tree of a running ledger. Its Log follows the stream, hashes
// each event, stores the tree as tiles in the audit directory, signs checkpoints, appends them to
// the ledger and sends them to a witness. It also makes proofs, and compares the stored events
// with their hashes (Scrub).
//
// The ledger does not depend on this package: events are recorded whether or not a Log runs. A Log
// never signs a tree that contradicts an earlier checkpoint. It reports damage and does not repair
// it, with one exception: the scrub rewrites a tile whose events are intact. The tiles and the
// files "checkpoints" and "durable" of the audit directory can be computed again from the stream,
// except the tiles of removed volumes. The identity and the signing key cannot.
//
// embed/volumes.go decides when a volume is sealed, embed/scrub.go whether a scrub runs. Package
// proof defines the form of leaves, checkpoints and proofs.
//
// Files, in reading order:
//
//	log.go          Log: hashes the events of the stream, compares recorded checkpoints with the
//	                tree, and stops on damage
//	sign.go         decides when a checkpoint is signed; signs and appends it; lets callers wait
//	                for one
//	closing.go      signs the closing checkpoint of a volume
//	preserve.go     makes the hashes of a volume durable before it is removed
//	prover.go       makes proofs under a checkpoint; reads tiles and leaves for clients
//	key.go          reads or creates the ledger identity and the signing key; lists all
//	                verification keys
//	signed.go       keeps the newest signed checkpoint beside the key; refuses a start without a
//	                place for it
//	checkpoints.go  stores each signed checkpoint: appends to the file of checkpoints, and reads
//	                it
//	tilefiles.go    writes and reads the files of the tree
//	durable.go      syncs the tree to disk and records its size
//	dir.go          reads an audit directory for verification; finds the highest position that it
//	                proves; replaces its files
//	loss.go         finds the leaves of lost events that the files prove; resets the tree
//	witness.go      sends checkpoints to a witness, and decides how often it tries
//	scrub.go        reads the stored events at a limited rate, and reports what it finds
//	scrubtiles.go   compares events with tiles, tiles with the level above, and the tree with the
//	                newest checkpoint; decides which of them is wrong; rewrites a wrong tile
package translog
