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
// ends. If a frame would make net/http open or end a stream without the frameConn noticing,
// the frameConn closes the connection. Clients that cause much other work wait for turns,
// which are given by address.
//
// The answer to a request does not wait for the request's body. If a request was
// refused, its connection holds no memory for the request while the client still sends
// the rest of the body.
//
// The maximum numbers of connections are computed in embed/connections.go; httpapi/server.go
// limits the size and the time of a header, and httpapi/progress.go the time of a body.
//
// The files, in reading order:
//
//   - limiter.go: Limiter: decides whether a new connection is served, refused, or replaces
//     an idle one; limits header fields; sets the limits of HTTP/2 in net/http
//   - queue.go: finds the connection that has been without a request for longest
//   - requests.go: requestConn, through which net/http reads HTTP/1; refuses headers with too
//     many lines
//   - framing.go: finds headers and bodies in the bytes of HTTP/1, and counts lines
//   - linger.go: decides how long the rest of a request is read after its answer, and closes
//     the connection
//   - secure.go: the TLS listener: makes handshakes, and limits their time
//   - frames.go: finds frames and decodes headers in the bytes of HTTP/2; limits the frames
//     and the size of a header
//   - frameconn.go: frameConn, through which net/http reads HTTP/2: decides which frames are
//     passed on, wait, or end the connection
//   - framewrite.go: writes the frames of a frameConn, and decides when it is closed
//   - connstreams.go: decides when a stream of one HTTP/2 connection opens, and when its
//     place is free again
//   - streams.go: limits the streams of all HTTP/2 connections, and decides which waiting one
//     is refused
//   - surplus.go: decides how much work a connection may cause without answered requests, and
//     what each frame costs
//   - pace.go: decides in which order connections with such work continue, by address
package connections
