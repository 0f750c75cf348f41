// Package connections bounds the connections of an HTTP server, in total and per client
// address, and what their requests take before a handler gets them.
//
// At a limit, a new connection replaces the one that has been without a request for
// longest. A new connection is refused only if all others have a request: it gets
// status 503, or the health of the server, and is closed.
//
// The package bounds the lines of HTTP/1 headers, and the header fields, streams,
// resets and buffers of HTTP/2. For HTTP/2, a frameConn follows the frames that
// net/http reads and writes, so that each request has a counted place until its stream
// ends. It closes connections whose frames would make net/http open or end a stream
// without its knowledge. Clients that cause much other work take turns, by address.
//
// The answer to a request does not wait for the request's body. If a request was
// refused, its connection holds no memory for the request while the client still sends
// it.
//
// The files, in reading order:
//
//   - limiter.go: Limiter, its options, and one connection
//   - queue.go: connections in the order of their idle time
//   - requests.go: requestConn, through which net/http reads HTTP/1
//   - framing.go: finds headers and bodies in the bytes of HTTP/1
//   - linger.go: closes a connection whose request was not read completely
//   - secure.go: the TLS listener, with the handshake
//   - frames.go: finds frames and decodes headers in the bytes of HTTP/2
//   - frameconn.go: frameConn, through which net/http reads HTTP/2
//   - framewrite.go: the writes of a frameConn, and how it is closed
//   - connstreams.go: the streams of one HTTP/2 connection
//   - streams.go: the streams of all HTTP/2 connections
//   - surplus.go: counts the work that a connection causes without a request
//   - pace.go: the turns of connections with such work
package connections
