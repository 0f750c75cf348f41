// Package torture holds tests that kill a loaded server, or cut the power of its disk,
// repeatedly, and then compare the ledger with the answers that clients received. Another
// test puts single faults into the files of a store. The package has no code besides
// tests.
//
// The files, in reading order:
//
//   - server_test.go: starts, kills and queries the server
//   - kill_test.go: kills under load, and the check of the ledger
//   - power_test.go: power cuts of the disk under load
//   - start_test.go: kills while a data directory is created
//   - consumer_test.go: kills of consumers of events
//   - webhook_test.go: kills during deliveries of webhooks
//   - faults_test.go, faultkinds_test.go, faultproofs_test.go: single faults in files, their
//     kinds, and what must be proven after them
package torture
