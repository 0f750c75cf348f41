// Package natsserver runs the embedded NATS server: in process for the ledger, and on a
// loopback socket for subscribers.
//
// The package promises that an acknowledged message is on disk, and that a subscriber
// reads only events of its tenant and changes only consumers of its tenant. If streams are
// exposed from the start, the connections of Conn cannot delete their messages; those of
// AdminConn can, with the whole stream. The package does not know the meaning of streams.
// Package jetstream creates them over connections of this package.
//
// The files, in reading order:
//
//   - server.go: Server, its options and connections; refuses addresses beyond loopback
//   - launch.go: starts nats-server, and starts it again after a failed write
//   - log.go: forwards the log of nats-server; explains its lines; detects a failed write
//   - users.go: authenticates a connection; the permissions of the service itself
//   - subscribers.go: replaces the list of subscribers and authenticates them; their accounts,
//     permissions and limits of connections
//   - consumerproxy.go: the gate: decides which JetStream requests of a subscriber are
//     permitted; limits their size and rate
//   - gateread.go: answers its requests about streams and messages of its tenant
//   - gateconsumer.go: answers its requests about consumers; limits their number and settings
package natsserver
