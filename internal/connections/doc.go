// Package connections bounds the connections of an HTTP server: in all, and those
// of one address.
//
// A connection without a request is not worth much: at a bound the one that has
// been without a request for longest is closed for a new one. Only when every
// connection has a request, a new one is refused: it is answered 503, or what the
// server's own health is, and closed.
package connections
