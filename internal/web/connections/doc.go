// Package connections bounds the connections of an HTTP server: in all, and those
// of one address.
//
// A connection without a request is not worth much: at a bound the one that has
// been without a request for longest is closed for a new one. Only when every
// connection has a request, a new one is refused: it is answered 503, or what the
// server's own health is, and closed.
//
// The package bounds what the requests of a connection take before a handler sees them:
// the lines of HTTP/1 headers and the fields, streams, resets and buffers of HTTP/2. For HTTP/2
// a frameConn follows the frames that net/http reads and writes, so that each request has a
// counted place until its stream ends. It closes connections whose frames would have net/http
// open or end a stream without that. Clients that cause much other work take turns, by
// address. The answer to a request does not wait for its body. A connection whose request
// was refused holds nothing of the request while the client still sends it.
package connections
