// Package jetstream opens the ledger on NATS JetStream and joins its parts: jet, the
// client of the server; stream, the sequence of events; blobs, heaps and long texts; and
// queue, the run requests. The order in which they are opened is decided here.
//
// A Store decides nothing: the rules are those of package ledger, whose Store it
// implements. No type of NATS leaves the packages of internal/store but the connections
// that they are given.
package jetstream
