// Package client is a typed client of the REST interface. It is used by the commands and by
// tests that look at a running server, and has only the requests that these make.
//
// The bodies of answers are the types that the server encodes, so a renamed member breaks
// the build of the client. The few types that package httpapi does not export are declared
// here again, each with the members that a caller reads.
//
// The files, in reading order:
//
//   - client.go: Client, Answer; sends a request, and sends a read again that was refused for
//     its rate; reads an answer up to its maximum size; asks whether the server is ready;
//     resolves ids
//   - errors.go: Error, ErrNoServer; decides which errors are temporary, for the exit status
//   - members.go: decides by required members whether an answer is that of a Daybook server
//   - stream.go: reads streams of server-sent events, such as the output of a run, and
//     requests the rest after a broken connection
//   - executions.go, events.go, heaps.go, sessions.go, ledger.go, signers.go, webhooks.go, modules.go: the
//     requests, by topic
package client
