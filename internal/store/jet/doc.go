// Package jet is a client of a NATS server with JetStream: direct gets, messages that
// are published until they are stored, the classes of errors, and the health of an
// outside server. It knows of streams and messages, not of what they are for.
//
// Reads ask a stream by direct get: a request and its bounded answer, without
// consumers on the server, so that nothing needs cleaning up or can go stale.
package jet
