package connections

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"
)

const (
	// handshakeTimeout bounds a TLS handshake.
	handshakeTimeout = 10 * time.Second
	// notTLS is the answer to a request without TLS.
	notTLS = "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
)

// SecureListener returns a listener for TLS connections within the limits. It makes the
// handshakes itself, to count the lines of HTTP/1 headers after decryption. So the
// server MUST be run with Serve, not ServeTLS. The caller MUST close the listener,
// which also ends its goroutine.
func (l *Limiter) SecureListener(inner net.Listener, config *tls.Config) net.Listener {
	ctx, cancel := context.WithCancel(context.Background())
	s := &secureListener{Listener: &listener{inner, l}, limiter: l, config: config, ctx: ctx, cancel: cancel, ready: make(chan accepted)}
	go s.run()
	return s
}

type secureListener struct {
	net.Listener // of *requestConn
	limiter      *Limiter
	config       *tls.Config
	ctx          context.Context // canceled by Close
	cancel       context.CancelFunc
	ready        chan accepted
}

type accepted struct {
	conn net.Conn
	err  error
}

// run accepts connections until Close.
func (s *secureListener) run() {
	for s.ctx.Err() == nil {
		c, err := s.Listener.Accept()
		if err != nil {
			s.send(accepted{err: err}) // the server waits before it accepts again
			continue
		}
		go s.secure(c)
	}
}

// send passes a result to Accept, and reports whether it did.
func (s *secureListener) send(a accepted) bool {
	select {
	case s.ready <- a:
		return true
	case <-s.ctx.Done():
		return false
	}
}

// secure makes the handshake of a connection.
func (s *secureListener) secure(plain net.Conn) {
	c := unwrap(plain)
	t := tls.Server(c, s.config)
	ctx, cancel := context.WithTimeout(s.ctx, handshakeTimeout)
	defer cancel()
	if err := t.HandshakeContext(ctx); err != nil {
		if e, ok := errors.AsType[tls.RecordHeaderError](err); ok && e.Conn != nil && isRequest(e.RecordHeader) {
			_, _ = io.WriteString(e.Conn, notTLS) // a client that has left needs no answer
		}
		s.limiter.opts.Logger.Debug("TLS handshake failed", "listener", s.limiter.opts.Name, "error", err)
		_ = c.Close() // the handshake failed anyway
		return
	}
	var out net.Conn
	if state := t.ConnectionState(); state.NegotiatedProtocol == "h2" {
		c.requests, c.secure = nil, &state
		f := newFrameConn(t, c)
		c.frames.Store(f)
		out = f
	} else {
		c.requests = &requestConn{Conn: t, below: c}
		out = secureRequestConn{c.requests, t}
	}
	if !s.send(accepted{conn: out}) {
		_ = out.Close() // the listener is closed
	}
}

// isRequest reports whether the first bytes of a connection start an HTTP request.
func isRequest(start [5]byte) bool {
	switch string(start[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "DELET", "PATCH":
		return true
	}
	return false
}

// Accept returns the next connection with a complete handshake.
func (s *secureListener) Accept() (net.Conn, error) {
	select {
	case a := <-s.ready:
		return a.conn, a.err
	case <-s.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close closes the listener and ends running handshakes. A server that shuts down
// closes its listener first.
func (s *secureListener) Close() error {
	s.limiter.shutdown.Store(true)
	s.cancel()
	return s.Listener.Close() //nolint:wrapcheck // the listener's own error
}
