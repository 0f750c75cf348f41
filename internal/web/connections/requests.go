package connections

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"time"
)

// headerTooLong is the answer to a request whose header has too many lines.
var headerTooLong = func() string {
	text := "the request header has more than " + strconv.Itoa(maxLines) + " lines; send fewer fields\n"
	return "HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n" +
		"Content-Length: " + strconv.Itoa(len(text)) + "\r\n\r\n" + text
}()

// errHeaderTooLong looks like an error of the network to net/http, which answers
// nothing then.
var errHeaderTooLong = &net.OpError{Op: "read", Net: "tcp", Err: errors.New("the request header has too many lines")}

// requestConn is what net/http reads the requests of HTTP/1 from. It gives net/http no
// bytes beyond the end of a header or of a request in one Read, so the buffer of net/http
// is empty whenever a header begins, and each line of it is counted.
type requestConn struct {
	net.Conn // *conn, or a *tls.Conn above one
	below    *conn

	mu sync.Mutex
	// rest was read and not yet given to net/http.
	rest    []byte
	framing framing
	// early holds a byte that net/http read after a header, before the handler started.
	early []byte
	// raw is true once the protocol is not HTTP any more.
	raw bool
	// stopped is what Read returns once the rest of a request is not read.
	stopped error
}

// NetConn returns the connection below.
func (c *requestConn) NetConn() net.Conn { return c.below }

// secureRequestConn is a requestConn above TLS: net/http asks for its state.
type secureRequestConn struct {
	*requestConn
	tls *tls.Conn
}

// ConnectionState returns the state of TLS.
func (c secureRequestConn) ConnectionState() tls.ConnectionState { return c.tls.ConnectionState() }

// Read reads a piece of a request. net/http reads from one goroutine at a time.
func (c *requestConn) Read(p []byte) (int, error) {
	n, err := c.fromRest(p)
	if n > 0 || err != nil {
		return n, err
	}
	// An error that comes with bytes comes again.
	if n, err = c.Conn.Read(p[:c.wanted(len(p))]); n <= 0 {
		return n, err //nolint:wrapcheck // net/http compares it
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	used, err := c.follow(p[:n])
	if used < n && err == nil {
		c.rest = append([]byte(nil), p[used:n]...)
	}
	return used, err
}

// wanted is how many of n bytes are read at once.
func (c *requestConn) wanted(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.framing.part == inBody && uint64(n) > c.framing.left {
		return int(c.framing.left)
	}
	return n
}

// fromRest gives net/http bytes that were read before.
func (c *requestConn) fromRest(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped != nil {
		return 0, c.stopped
	}
	if len(p) == 0 || len(c.rest) == 0 {
		return 0, nil
	}
	used, err := c.follow(p[:copy(p, c.rest)])
	if c.rest = c.rest[used:]; len(c.rest) == 0 {
		c.rest = nil
	}
	return used, err
}

// follow follows bytes of the connection and returns how many of them net/http gets. The
// caller must hold mu.
func (c *requestConn) follow(p []byte) (int, error) {
	if c.raw {
		return len(p), nil
	}
	if c.framing.part == afterHeader {
		// net/http watches for the end of the connection and reads a byte.
		if len(c.early) > 0 {
			c.stopped = io.EOF
			return 0, c.stopped
		}
		c.early = append(c.early, p[0])
		return 1, nil
	}
	used, ok := c.framing.take(p)
	if !ok {
		c.stopped = errHeaderTooLong
		_ = c.SetWriteDeadline(time.Now().Add(lingerTime))
		_, _ = io.WriteString(c.Conn, headerTooLong) // a client that has left needs no answer
		return 0, c.stopped
	}
	return used, nil
}

// Write writes a piece of an answer. Behind the refusal of a header net/http may add an
// answer to the line that was cut off, which is dropped.
func (c *requestConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	dropped := errors.Is(c.stopped, errHeaderTooLong)
	c.mu.Unlock()
	if dropped {
		return len(p), nil
	}
	return c.Conn.Write(p) //nolint:wrapcheck // net/http compares it
}

// begin learns how long the body of a request is whose handler starts.
func (c *requestConn) begin(length int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.framing.body(length)
	early := c.early
	c.early = nil
	c.framing.take(early)
}

// complete reports whether all of the request has arrived, or was read.
func (c *requestConn) complete() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.raw || c.framing.part == inHeader:
		return true
	case c.framing.part == inBody:
		return c.framing.left <= uint64(len(c.rest))
	default:
		return false
	}
}

// idle checks that a request was read to its end when net/http waits for the next one.
func (c *requestConn) idle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.framing.part != inHeader {
		c.stopped = io.EOF
	}
}

// refuse makes net/http read no more of the connection.
func (c *requestConn) refuse() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = io.EOF
}

// keep makes the connection one of another protocol.
func (c *requestConn) keep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw = true
}

// CloseWrite is called by net/http before it closes a connection with an unread request.
// Close discards the rest of the request.
func (c *requestConn) CloseWrite() error {
	c.refuse()
	return nil
}

// Close closes the connection: at once, or once the client has got the answer that
// refused its request. The caller does not wait for the client.
func (c *requestConn) Close() error {
	c.mu.Lock()
	stopped := c.stopped
	c.mu.Unlock()
	c.below.answered()
	if stopped == nil {
		return c.Conn.Close() //nolint:wrapcheck // net/http ignores it
	}
	c.below.linger(c.Conn)
	return nil
}
