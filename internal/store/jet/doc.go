// Package jet is a client of a NATS server with JetStream. It publishes messages, reads
// them by direct get, classifies errors, and watches whether an outside server answers
// and has space. It knows streams and messages, and not their meaning.
//
// The package promises that Publish returns without an error only for a stored message,
// and that requests to a server that does not answer, or cannot store, fail early with
// *events.NoAnswerError and *events.UnwritableError. A read is one request and its
// bounded answer. It needs no consumer on the server, so that nothing has to be deleted
// later.
//
// The files, in reading order:
//
//   - client.go: Client, its options, its connections
//   - get.go: direct gets of one message and of many
//   - errors.go: classes of errors
//   - unwritable.go: Publish, and a server that cannot store
//   - full.go: a server that has reached a storage limit
//   - silence.go: an outside server that does not answer
//   - warnings.go: limits repeated log messages
package jet
