// Package torture holds tests that kill a loaded server, or cut the power of its disk,
// repeatedly, and then compare the ledger with the answers that clients received. Other
// tests put single faults into the files of a store, and attack the proof. The package has
// no code besides tests.
//
// The files, in reading order:
//
//   - server_test.go: starts, kills and queries the server
//   - kill_test.go: kills under load, and the check of the ledger
//   - power_test.go: power cuts of the disk under load
//   - start_test.go: kills while a data directory is created
//   - consumer_test.go: kills of consumers of events
//   - webhook_test.go: kills during deliveries of webhooks
//   - faultstore_test.go, faults_test.go, faultkinds_test.go, faultproofs_test.go: a store and
//     its answers, single faults in its files, their kinds, and what must be proven after them
//   - proofstore_test.go: a sound ledger for attacks on the proof, and what a reader sees in it
//   - blocks_test.go: reads and writes the blocks of the embedded server, and tiles
//   - dataedits_test.go, forgeries_test.go, archiveforgeries_test.go: random edits of a data
//     directory, and those of streams and archives whose checksums, tiles and signatures fit
//   - attacks_test.go: attacks on the proof, as a program each
//   - hiddenloss_test.go: ledgers whose losses hide what was signed
//   - crashstates_test.go: copies of a ledger's files at random moments
package torture
