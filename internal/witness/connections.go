package witness

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
)

// limitedListener bounds the open connections. A new connection beyond the bound replaces one that waits for
// its client, so that clients that send nothing, or slowly, do not take the places of others.
type limitedListener struct {
	net.Listener
	most int

	mu sync.Mutex
	// open are the connections, the one that has waited for its client for the longest time first.
	open []*limitedConn // guarded by mu
}

// limitedConn is an open connection.
type limitedConn struct {
	net.Conn
	listener *limitedListener
	address  string // without the port
	deciding bool   // guarded by listener.mu; its client waits for the witness
}

type connKey struct{}

// bind lets a server tell the listener which connections wait for their clients. The server MUST serve l.
func (l *limitedListener) bind(s *http.Server) {
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }
	s.ConnState = func(c net.Conn, state http.ConnState) {
		if own, ok := c.(*limitedConn); ok && state == http.StateIdle {
			own.mark(false)
		}
	}
}

// keepConnection protects the connection of a request from being replaced until end is called.
func keepConnection(ctx context.Context) (end func()) {
	c, ok := ctx.Value(connKey{}).(*limitedConn)
	if !ok {
		return func() {}
	}
	c.mark(true)
	return func() { c.mark(false) }
}

// Accept implements net.Listener.
func (l *limitedListener) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &limitedConn{Conn: inner, listener: l}
	if a := inner.RemoteAddr(); a != nil {
		if c.address, _, err = net.SplitHostPort(a.String()); err != nil {
			c.address = a.String()
		}
	}
	if replaced := l.add(c); replaced != nil {
		_ = replaced.Conn.Close() // its client loses it anyway
	}
	return c, nil
}

// add counts a connection. It returns the one to close for it, or nil.
func (l *limitedListener) add(c *limitedConn) (replaced *limitedConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= l.most {
		replaced = l.replaceable()
		l.drop(replaced)
	}
	l.open = append(l.open, c)
	return replaced
}

// replaceable returns the connection that has waited for its client for the longest time, of the address with the
// most connections. If none waits, it returns the oldest one. The caller must hold mu.
func (l *limitedListener) replaceable() *limitedConn {
	waiting := map[string]int{}
	for _, c := range l.open {
		if !c.deciding {
			waiting[c.address]++
		}
	}
	found := l.open[0]
	for _, c := range l.open {
		if !c.deciding && (found.deciding || waiting[c.address] > waiting[found.address]) {
			found = c
		}
	}
	return found
}

// drop stops counting a connection. The caller must hold mu.
func (l *limitedListener) drop(c *limitedConn) bool {
	i := slices.Index(l.open, c)
	if i >= 0 {
		l.open = slices.Delete(l.open, i, i+1)
	}
	return i >= 0
}

// mark records whether the client waits for the witness. Otherwise the witness waits for the client from now on.
func (c *limitedConn) mark(deciding bool) {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.deciding = deciding
	if c.listener.drop(c) {
		c.listener.open = append(c.listener.open, c)
	}
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	c.listener.mu.Lock()
	c.listener.drop(c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}
