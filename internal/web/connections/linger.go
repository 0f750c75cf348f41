package connections

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"time"
)

const (
	// lingerTime and lingerBytes bound what is read of a request whose answer was
	// sent before all of it came. A server that shuts down waits for shutdownLinger.
	lingerTime     = 5 * time.Second
	shutdownLinger = 500 * time.Millisecond
	lingerBytes    = 32 << 20
)

// linger ends the answer, discards what the client still sends, and closes the
// connection. Without it the close resets the connection, and the client may lose the
// answer. It does not wait for the client, unless the server shuts down: nothing of the
// request is in memory meanwhile. The connection has no request: it is closed when a new
// one needs its place. above is the connection that the answer was written to.
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
		// ReadFrom of io.Discard has pooled buffers. An error means that the client has
		// left or is too slow.
		_, _ = io.Copy(io.Discard, io.LimitReader(c.Conn, lingerBytes))
	}
	c.limiter.mu.Lock()
	ending := c.limiter.ending
	c.limiter.mu.Unlock()
	if ending {
		discard(shutdownLinger)
		return
	}
	go discard(lingerTime)
}

// answer is the answer to a request of HTTP/1 with a body. The answer does not wait for
// the rest of the body: it closes the connection then. net/http itself would wait for
// 256 KiB.
type answer struct {
	http.ResponseWriter
	conn    *requestConn
	started bool
	ended   bool
}

// Unwrap serves http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// begin is called before the header of the answer is written.
func (a *answer) begin() {
	if a.started {
		return
	}
	a.started = true
	if !a.conn.complete() {
		a.Header().Set("Connection", "close")
	}
}

// end is called when the handler has returned.
func (a *answer) end() {
	a.ended = true
	a.begin()
	if a.conn.complete() {
		return
	}
	_ = http.NewResponseController(a.ResponseWriter).Flush() // a client that has left needs no answer
	a.conn.refuse()
}

// abort reads no more of a request whose handler did not return.
func (a *answer) abort() {
	if !a.ended && !a.conn.complete() {
		a.conn.refuse()
	}
}

// WriteHeader begins the answer.
func (a *answer) WriteHeader(code int) {
	if code >= http.StatusOK {
		a.begin()
	}
	a.ResponseWriter.WriteHeader(code)
}

// Write writes a piece of the answer.
func (a *answer) Write(p []byte) (int, error) {
	a.begin()
	return a.ResponseWriter.Write(p) //nolint:wrapcheck // the writer's own error
}

// Flush sends what is buffered.
func (a *answer) Flush() { _ = a.FlushError() }

// FlushError sends what is buffered and returns why that failed.
func (a *answer) FlushError() error {
	a.begin()
	return http.NewResponseController(a.ResponseWriter).Flush() //nolint:wrapcheck // the writer's own error
}
