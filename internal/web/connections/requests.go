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

// errHeaderTooLong looks like the error of a failed network read to net/http, which then
// writes no answer.
var errHeaderTooLong = &net.OpError{Op: "read", Net: "tcp", Err: errors.New("the request header has too many lines")}

// requestConn is the connection that net/http reads HTTP/1 requests from. A Read
// returns no bytes after the end of a header or of a request. So the buffer of net/http
// is empty whenever a header starts, and each line of the header is counted.
type requestConn struct {
	net.Conn // *conn, or a *tls.Conn above one
	below    *conn

	mu sync.Mutex
	// rest was read, but not yet returned to net/http.
	rest    []byte
	framing framing
	// earlyByte holds a byte that net/http read after a header, before the handler started.
	earlyByte []byte
	// isRaw is true after the protocol changed from HTTP to another one.
	isRaw bool
	// readErr is what Read returns after the reading of a request was ended early; nil before.
	readErr error
}

// NetConn returns the connection below.
func (c *requestConn) NetConn() net.Conn { return c.below }

// secureRequestConn is a requestConn above TLS, with the state that net/http needs.
type secureRequestConn struct {
	*requestConn
	tls *tls.Conn
}

// ConnectionState returns the TLS state.
func (c secureRequestConn) ConnectionState() tls.ConnectionState { return c.tls.ConnectionState() }

// Read returns a part of a request. net/http calls it from one goroutine at a time.
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

// wanted returns how many of n bytes to read at once.
func (c *requestConn) wanted(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.framing.part == inBody && uint64(n) > c.framing.left {
		return int(c.framing.left)
	}
	return n
}

// fromRest returns bytes that were read before.
func (c *requestConn) fromRest(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.readErr != nil {
		return 0, c.readErr
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

// follow consumes bytes of the connection and returns how many of them net/http gets.
// The caller must hold mu.
func (c *requestConn) follow(p []byte) (int, error) {
	if c.isRaw {
		return len(p), nil
	}
	if c.framing.part == afterHeader {
		// net/http reads a byte to notice the end of the connection.
		if len(c.earlyByte) > 0 {
			c.readErr = io.EOF
			return 0, c.readErr
		}
		c.earlyByte = append(c.earlyByte, p[0])
		return 1, nil
	}
	used, ok := c.framing.take(p)
	if !ok {
		c.readErr = errHeaderTooLong
		_ = c.SetWriteDeadline(time.Now().Add(lingerTimeout))
		_, _ = io.WriteString(c.Conn, headerTooLong) // a client that has left needs no answer
		return 0, c.readErr
	}
	return used, nil
}

// Write writes a part of an answer. After a header was refused, net/http may add an
// answer to the incomplete header; Write drops it.
func (c *requestConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	dropped := errors.Is(c.readErr, errHeaderTooLong)
	c.mu.Unlock()
	if dropped {
		return len(p), nil
	}
	return c.Conn.Write(p) //nolint:wrapcheck // net/http compares it
}

// begin sets the length of the body of a request whose handler starts.
func (c *requestConn) begin(length int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.framing.body(length)
	early := c.earlyByte
	c.earlyByte = nil
	c.framing.take(early)
}

// isComplete reports whether the complete request was received or read.
func (c *requestConn) isComplete() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.isRaw || c.framing.part == inHeader:
		return true
	case c.framing.part == inBody:
		return c.framing.left <= uint64(len(c.rest))
	default:
		return false
	}
}

// idle checks that a request was read completely when net/http waits for the next one.
func (c *requestConn) idle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.framing.part != inHeader {
		c.readErr = io.EOF
	}
}

// refuse stops net/http from reading the connection.
func (c *requestConn) refuse() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readErr = io.EOF
}

// markRaw marks the connection as used by another protocol.
func (c *requestConn) markRaw() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isRaw = true
}

// CloseWrite is called by net/http before it closes a connection with an unread
// request. It stops the reading; Close discards the rest of the request.
func (c *requestConn) CloseWrite() error {
	c.refuse()
	return nil
}

// Close closes the connection. If its request was refused, the connection is closed
// after the client got the answer, and Close does not wait for that.
func (c *requestConn) Close() error {
	c.mu.Lock()
	stopped := c.readErr
	c.mu.Unlock()
	c.below.finishAnswer()
	if stopped == nil {
		return c.Conn.Close() //nolint:wrapcheck // net/http ignores it
	}
	c.below.linger(c.Conn)
	return nil
}
