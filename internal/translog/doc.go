// Package translog keeps the Merkle tree of a running ledger. Its Log follows the stream, hashes
// each event, stores the tree as tiles in the audit directory, signs checkpoints, appends them to
// the ledger and lets witnesses cosign them. It also makes proofs, and compares the stored events
// with their hashes (Scrub).
//
// The ledger does not depend on this package: events are recorded whether or not a Log runs. A Log
// never signs a tree that contradicts an earlier checkpoint. It reports damage and does not repair
// it, with one exception: the scrub rewrites a tile whose events are intact. The tiles and the
// files of checkpoints and "durable" of the audit directory can be computed again from the stream,
// except the tiles of removed volumes. The identity and the signing key cannot.
//
// embed/volumes.go decides when a volume is sealed, embed/scrub.go whether a scrub runs. Package
// proof defines the form of leaves, checkpoints and proofs.
//
// Files, in reading order:
//
//	log.go          Log: hashes the events of the stream, compares recorded checkpoints with the
//	                tree, and stops on damage
//	unsigned.go     compares events that are in the tree and not signed yet with its files
//	sign.go         decides when a checkpoint is signed; signs and appends it; lets callers wait
//	                for one
//	closing.go      signs the closing checkpoint of a volume
//	removals.go     announces removals of volumes, and refuses one that was not announced
//	preserve.go     makes the hashes of a volume durable before it is removed
//	prover.go       makes proofs under a checkpoint; reads tiles and leaves for clients
//	key.go          reads or creates the ledger identity and the signing key; lists all
//	                verification keys
//	signed.go       keeps the newest signed checkpoint beside the key; refuses a start without a
//	                place for it
//	origin.go       starts the origin of the ledger, and ends it if it cannot continue; continues an
//	                interrupted change of it
//	counting.go     says whose signature of a checkpoint counts
//	signers.go      changes who signs; replaces the key of this server
//	checkpoints.go  stores each signed checkpoint in the files of checkpoints, and reads the last one
//	keptcheckpoints.go  reads all stored checkpoints, in the order of their sizes
//	tilefiles.go    writes and reads the files of the tree
//	foreigntree.go  computes the tree again if its files contradict what was signed
//	durable.go      syncs the tree to disk and records its size
//	dir.go          reads an audit directory for verification; finds the highest position that it
//	                proves; replaces its files
//	loss.go         finds the leaves of lost events that the files prove; resets the tree
//	copies.go       sends copies of checkpoints to a service that stores them
//	witness.go      decides when the witnesses of a policy are asked to cosign a checkpoint, and
//	                collects their cosignatures
//	witnessclient.go  asks one witness, and compares what it knows with the tree
//	witnessconflict.go  asks the witnesses before the first signature after a start, and ends the
//	                signing if a checkpoint of theirs contradicts the tree
//	cosigned.go     stores the newest checkpoint that enough witnesses cosigned, and the policy;
//	                lets callers wait for one
//	scrub.go        reads the stored events at a limited rate, and reports what it finds
//	scrubtiles.go   compares events with tiles, tiles with the level above, and the tree with the
//	                newest checkpoint; decides which of them is wrong; rewrites a wrong tile
package translog
