// Package client is a typed client of the REST interface. The commands use it, and tests
// that look at a running server. It has only the requests that these make.
//
// The bodies of answers are the types that the server encodes, so a renamed member breaks
// the build of the client. The few types that package httpapi does not export are declared
// here again, each with the members that a caller reads.
//
// The files, in reading order:
//
//   - client.go: Client, Answer, how a request is sent and an answer is read
//   - errors.go: Error, ErrNoServer
//   - members.go: the members by which answers are recognized
//   - stream.go: requests for streams of server-sent events, such as the output of a run;
//     a stream continues after a broken connection
//   - executions.go, events.go, heaps.go, sessions.go, ledger.go, webhooks.go: the requests
package client
