// Package natsserver runs the embedded NATS server: in process for the ledger, and on a
// loopback socket for subscribers.
//
// The package promises that an acknowledged message is on disk, and that a subscriber
// reads only events of its tenant and changes only consumers of its tenant. If streams are
// exposed, connections of the service itself cannot delete recorded messages; only those
// of AdminConn can. The package does not know the meaning of streams. Package jetstream
// creates them over connections of this package.
//
// The files, in reading order:
//
//   - server.go: Server, its options and connections
//   - launch.go: starts nats-server, and starts it again after a failed write
//   - log.go: the log of nats-server, and its meaning for the ledger
//   - users.go: users and permissions
//   - subscribers.go: accounts and connections of subscribers
//   - consumerproxy.go: the gate, which handles the JetStream requests of a subscriber
//   - gateread.go, gateconsumer.go: its requests about streams, messages and consumers
package natsserver
