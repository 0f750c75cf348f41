package connections

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"time"
)

const (
	// lingerTimeout and lingerBytes bound the reading of a request whose answer was sent
	// before the request was read completely. shutdownLinger replaces lingerTimeout while
	// the server shuts down.
	lingerTimeout  = 5 * time.Second
	shutdownLinger = 500 * time.Millisecond
	lingerBytes    = 32 << 20
)

// linger ends the answer, discards what the client still sends, and closes the
// connection. A connection that is closed with unread bytes is reset, and the client
// could lose the answer. linger waits for the client only while the server shuts down;
// otherwise a goroutine does. The request takes no memory meanwhile. The connection
// counts as idle and may be closed for a new one. above is the connection that the
// answer was written to.
func (c *conn) linger(above net.Conn) {
	discard := func(limit time.Duration) {
		defer func() { _ = c.Close() }() // the client has its answer
		if c.SetDeadline(time.Now().Add(limit)) != nil {
			return
		}
		if t, ok := above.(*tls.Conn); ok && t.CloseWrite() != nil {
			return // the client has left
		}
		half, ok := c.Conn.(interface{ CloseWrite() error })
		if !ok || half.CloseWrite() != nil {
			return
		}
		// ReadFrom of io.Discard uses pooled buffers. An error means that the client
		// has left or is too slow.
		_, _ = io.Copy(io.Discard, io.LimitReader(c.Conn, lingerBytes))
	}
	c.limiter.mu.Lock()
	ending := c.limiter.isEnding
	c.limiter.mu.Unlock()
	if ending {
		discard(shutdownLinger)
		return
	}
	go discard(lingerTimeout)
}

// answer writes the answer to an HTTP/1 request with a body. The answer does not wait
// for the rest of the body; it closes the connection instead. net/http alone would wait
// for up to 256 KiB of the rest.
type answer struct {
	http.ResponseWriter
	conn    *requestConn
	started bool
	ended   bool
}

// Unwrap supports http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// begin runs before the header of the answer is written.
func (a *answer) begin() {
	if a.started {
		return
	}
	a.started = true
	if !a.conn.isComplete() {
		a.Header().Set("Connection", "close")
	}
}

// end runs after the handler returned.
func (a *answer) end() {
	a.ended = true
	a.begin()
	if a.conn.isComplete() {
		return
	}
	_ = http.NewResponseController(a.ResponseWriter).Flush() // a client that has left needs no answer
	a.conn.refuse()
}

// abort stops the reading of a request whose handler did not return normally.
func (a *answer) abort() {
	if !a.ended && !a.conn.isComplete() {
		a.conn.refuse()
	}
}

// WriteHeader writes the header of the answer.
func (a *answer) WriteHeader(code int) {
	if code >= http.StatusOK {
		a.begin()
	}
	a.ResponseWriter.WriteHeader(code)
}

// Write writes a part of the answer.
func (a *answer) Write(p []byte) (int, error) {
	a.begin()
	return a.ResponseWriter.Write(p) //nolint:wrapcheck // the writer's own error
}

// Flush sends buffered data.
func (a *answer) Flush() { _ = a.FlushError() }

// FlushError sends buffered data and returns the error.
func (a *answer) FlushError() error {
	a.begin()
	return http.NewResponseController(a.ResponseWriter).Flush() //nolint:wrapcheck // the writer's own error
}
