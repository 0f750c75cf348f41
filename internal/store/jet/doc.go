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
//   - client.go: Client and its options; connects to an outside server; Publish sends one
//     message and waits until it is stored. Package stream tries again
//   - get.go: reads one message or many by direct get, and limits an answer
//   - errors.go: decides what an error of the server means: conflict, refusal, sealed stream
//   - unwritable.go: decides whether the server or this process cannot store now
//   - full.go: decides when a server has reached a storage limit, and when it accepts writes
//     again
//   - silence.go: decides when an outside server does not answer; bounds the requests to it
//   - warnings.go: limits repeated log messages
package jet
