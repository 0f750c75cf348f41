// Package jetstream opens the ledger on NATS JetStream and joins its parts: package
// jet, the client of the server; package stream, the sequence of events; package blobs,
// heaps and long texts; and package queue, the run requests. It defines the order in
// which they are opened.
//
// A Store implements the Store of package ledger and contains no rules about events. No
// NATS type leaves the packages of internal/store, except the connections that they are
// given.
//
// store.go holds Options, Store and Open.
package jetstream
