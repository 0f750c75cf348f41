package connections

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// spareConnections is the number of connections beyond the limit that are open at
	// once to get a refusal or the server's health.
	spareConnections = 64
	// spareTime is the maximum lifetime of such a connection. spareGrace is the minimum
	// lifetime of one without a request, if a new connection needs its place.
	spareTime  = 5 * time.Second
	spareGrace = 100 * time.Millisecond
	// maxStreams, frameBytes and windowBytes bound an HTTP/2 connection: its concurrent
	// requests, the size of a frame, and the received but unread bytes of bodies.
	maxStreams  = 100
	frameBytes  = 16 << 10
	windowBytes = 64 << 10
	// logInterval is the minimum time between two log lines about the limits.
	logInterval = 10 * time.Second
)

// Options configures a Limiter.
type Options struct {
	// Name is the name of the connections in the log, such as "HTTP".
	Name string
	// Total is the maximum number of open connections. It MUST be positive.
	Total int
	// PerAddress is the maximum number of open connections of one address. The
	// addresses of an IPv6 network of 64 bits count as one. 0 means half of Total for
	// each address, except that loopback addresses get Total, because all clients
	// behind a proxy on this machine share them.
	PerAddress int
	// Refuse answers a request on a connection beyond a limit. It MUST NOT block.
	// Health reports whether a request is served on such a connection anyway.
	Refuse http.HandlerFunc
	Health func(*http.Request) bool
	// Logger gets a line when a limit is reached, at most every 10 s. Default:
	// slog.Default.
	Logger *slog.Logger
}

// Stats holds the counts of a Limiter.
type Stats struct {
	// Open is the number of open connections, Busy the number of those with a request.
	Open, Busy int
	// Closed counts connections without a request that were closed for new ones.
	// Refused counts refused connections.
	Closed, Refused uint64
}

// Limiter bounds the connections of an HTTP server. Bind installs it on the server,
// which MUST then serve Listener or SecureListener. It is safe for concurrent use.
type Limiter struct {
	opts Options
	// streams counts HTTP/2 streams. Its limit allows one stream per connection, including
	// the spare connections.
	streams streams
	// surplus gives turns to connections whose clients cause much work.
	surplus turnQueue
	// shutdown is true after the TLS listener is closed.
	shutdown atomic.Bool

	mu           sync.Mutex
	all          queue // without spare connections
	spares       queue
	byAddress    map[netip.Prefix]*queue
	busy         int
	closedCount  uint64
	refusedCount uint64
	// requests counts the requests being served. isEnding is true after the server began
	// to shut down.
	requests int
	isEnding bool
	// logged is the time of the last log line, and loggedClosed and loggedRefused are
	// the counts at that time.
	logged                      time.Time
	loggedClosed, loggedRefused uint64
}

// New returns a Limiter.
func New(opts Options) *Limiter {
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	return &Limiter{opts: opts, byAddress: map[netip.Prefix]*queue{}, streams: streams{max: opts.Total + spareConnections, wait: placeTimeout}}
}

// Bind installs the Limiter and the limits of HTTP/2 on a server. It wraps the server's
// Handler. The caller then serves Listener(l) or SecureListener(l).
func (l *Limiter) Bind(s *http.Server) {
	s.Handler = l.handler(s.Handler)
	s.DisableGeneralOptionsHandler = true // the handler sees every request
	// UnencryptedHTTP2 is set because HTTP/2 connections are frameConns, which hide TLS from
	// net/http. Connections without TLS are requestConns, which pass no HTTP/2 to net/http.
	s.Protocols = new(http.Protocols)
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	s.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams:          maxStreams,
		MaxReadFrameSize:              frameBytes,
		MaxDecoderHeaderTableSize:     hpackTable, // as in block
		MaxReceiveBufferPerConnection: windowBytes,
		MaxReceiveBufferPerStream:     windowBytes,
		WriteByteTimeout:              unreadTimeout,
	}
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, unwrap(c))
	}
	s.ConnState = func(c net.Conn, state http.ConnState) {
		own := unwrap(c)
		switch {
		case own == nil:
		case state == http.StateHijacked:
			if own.requests != nil {
				own.requests.markRaw()
			}
			l.markUpgraded(own)
			own.finishAnswer()
		case state == http.StateIdle && own.requests != nil:
			own.requests.idle()
			own.finishAnswer()
		}
	}
	s.RegisterOnShutdown(l.closeIdle)
}

// closeIdle closes the connections without a request, because the server itself would wait
// for those that have sent a part of a request. closeIdle leaves HTTP/2 connections that
// had a request to the server, which closes them after their answers are written.
func (l *Limiter) closeIdle() {
	var list []*conn
	l.mu.Lock()
	l.isEnding = true
	for _, q := range []*queue{&l.all, &l.spares} {
		for e := q.idle.Front(); e != nil; e = e.Next() {
			list = append(list, e.Value.(*conn))
		}
	}
	l.mu.Unlock()
	for _, c := range list {
		if f := c.frames.Load(); f == nil || !f.hadStream() {
			_ = c.Close() // the server is shutting down
		}
	}
}

type connKey struct{}

// unwrap returns the connection that the Limiter's listener accepted, or nil.
func unwrap(c net.Conn) *conn {
	for {
		switch t := c.(type) {
		case *conn:
			return t
		case interface{ NetConn() net.Conn }: // TLS
			c = t.NetConn()
		default:
			return nil
		}
	}
}

// Listener returns a listener that accepts the connections of inner within the limits.
func (l *Limiter) Listener(inner net.Listener) net.Listener { return &listener{inner, l} }

type listener struct {
	net.Listener
	limiter *Limiter
}

// Accept returns the next connection to serve.
func (l *listener) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := l.limiter.admit(inner); c != nil {
			c.requests = &requestConn{Conn: c, below: c}
			return c.requests, nil
		}
	}
}

// admit counts a new connection. If no place is left for it, admit closes it and
// returns nil.
func (l *Limiter) admit(inner net.Conn) *conn {
	c := &conn{Conn: inner, limiter: l, address: addressOf(inner.RemoteAddr()), since: time.Now()}
	l.mu.Lock()
	victim := l.victimFor(c.address)
	switch {
	case victim != nil:
		l.remove(victim)
		l.closedCount++
		l.add(c)
	case l.fits(c.address):
		l.add(c)
	case l.makeSpareSpace(&victim):
		c.spare = true
		l.refusedCount++
		l.spares.push(c)
		c.timer = time.AfterFunc(spareTime, func() { _ = c.cut() }) // the client had enough time
	default:
		l.refusedCount++
		c.isRemoved = true
	}
	line := l.prepareLogLine()
	l.mu.Unlock()
	if victim != nil {
		_ = victim.cut() // the client loses it anyway
	}
	line()
	if c.isRemoved {
		inner.Close()
		return nil
	}
	return c
}

// makeSpareSpace reports whether another spare connection is allowed. It may remove an old
// one, which it stores in victim and the caller closes. The caller must hold mu.
func (l *Limiter) makeSpareSpace(victim **conn) bool {
	if l.spares.len() < spareConnections {
		return true
	}
	c := l.spares.oldest()
	if c == nil || time.Since(c.since) < spareGrace {
		return false
	}
	l.remove(c)
	*victim = c
	return true
}

// fits reports whether one more connection of an address is within the limits. The
// caller must hold mu.
func (l *Limiter) fits(address netip.Prefix) bool {
	return l.all.len() < l.opts.Total && l.byAddress[address].len() < l.limitFor(address)
}

// victimFor returns the connection to close for a new one of an address, or nil if there is
// none or none needs to be closed. The caller must hold mu.
func (l *Limiter) victimFor(address netip.Prefix) *conn {
	if mine := l.byAddress[address]; mine.len() >= l.limitFor(address) {
		return mine.oldest()
	}
	if l.all.len() < l.opts.Total {
		return nil
	}
	// Take it from the address with the most connections.
	var heaviest *queue
	for _, q := range l.byAddress {
		if q.waiting() > 0 && (heaviest == nil || q.len() > heaviest.len()) {
			heaviest = q
		}
	}
	return heaviest.oldest()
}

func (l *Limiter) limitFor(address netip.Prefix) int {
	if l.opts.PerAddress > 0 {
		return l.opts.PerAddress
	}
	if !address.IsValid() || address.Addr().IsLoopback() {
		return l.opts.Total
	}
	return max(1, l.opts.Total/2)
}

// add counts a connection. The caller must hold mu.
func (l *Limiter) add(c *conn) {
	q := l.byAddress[c.address]
	if q == nil {
		q = &queue{}
		l.byAddress[c.address] = q
	}
	q.push(c)
	l.all.push(c)
}

// remove stops counting a connection. The caller must hold mu.
func (l *Limiter) remove(c *conn) {
	if c.isRemoved {
		return
	}
	c.isRemoved = true
	if c.busy > 0 {
		l.busy--
	}
	if c.spare {
		c.timer.Stop()
		l.spares.drop(c)
		return
	}
	l.all.drop(c)
	q := l.byAddress[c.address]
	if q.drop(c); q.len() == 0 {
		delete(l.byAddress, c.address)
	}
}

// begin and end enclose each request of a connection. begin reports whether the request
// may be served. A request may be served if its connection has no other request. A further
// request, which only HTTP/2 allows, may be served while the number of all requests is
// within the limit for connections. While a stream of the connection is late, no new request
// may be served.
func (l *Limiter) begin(c *conn) (fits bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests++
	fits = (c.busy == 0 || l.requests <= l.opts.Total) && !c.hasLateStream.Load()
	l.markBusy(c)
	return fits
}

func (l *Limiter) end(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests--
	if c.busy--; c.busy == 0 && !c.isRemoved {
		l.busy--
		l.setIdle(c, true)
	}
}

// countRunning returns the number of requests of a connection that have handlers.
func (l *Limiter) countRunning(c *conn) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return c.busy
}

// markBusy counts one more request of a connection. The caller must hold mu.
func (l *Limiter) markBusy(c *conn) {
	if c.busy++; c.busy == 1 && !c.isRemoved {
		l.busy++
		l.setIdle(c, false)
	}
}

// markUpgraded protects a connection from being closed for another one, because its protocol is
// no longer HTTP.
func (l *Limiter) markUpgraded(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.markBusy(c)
}

// setIdle stores whether a connection is without a request from now on. The caller must
// hold mu.
func (l *Limiter) setIdle(c *conn, without bool) {
	queues := []*queue{&l.all, l.byAddress[c.address]}
	if c.spare {
		queues = []*queue{&l.spares}
	}
	for _, q := range queues {
		if without {
			q.markIdle(c)
		} else {
			q.markBusy(c)
		}
	}
}

// handler counts the requests of connections, and refuses requests on spare
// connections.
func (l *Limiter) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _ := r.Context().Value(connKey{}).(*conn)
		if c == nil {
			next.ServeHTTP(w, r)
			return
		}
		// net/http holds its request until the answer is sent. The handler gets a copy of
		// the request, so that the header can be dropped earlier.
		own := r
		r = r.WithContext(r.Context())
		own.Header = nil
		if c.requests == nil || r.ProtoMajor != 1 {
			r.TLS = c.secure
			l.serve(c, next, w, r)
			return
		}
		c.requests.begin(r.ContentLength)
		if r.ContentLength == 0 {
			l.serve(c, next, w, r)
			return
		}
		a := &answer{ResponseWriter: w, conn: c.requests}
		defer a.abort() // after a panic
		l.serve(c, next, a, r)
		a.end()
	})
}

func (l *Limiter) serve(c *conn, next http.Handler, w http.ResponseWriter, r *http.Request) {
	fits := l.begin(c)
	if c.requests == nil {
		defer l.end(c)
	} else {
		c.isAnswerUnsent.Store(true) // until the answer is written
	}
	if countFields(r) > maxLines {
		dropHeader(w, r)
		w.Header().Set("Connection", "close")
		http.Error(w, "the request header has more than "+strconv.Itoa(maxLines)+" fields; send fewer fields", http.StatusRequestHeaderFieldsTooLarge)
		return
	}
	if c.spare {
		w.Header().Set("Connection", "close")
	}
	if (c.spare || !fits) && !l.opts.Health(r) {
		dropHeader(w, r)
		l.opts.Refuse(w, r)
		return
	}
	next.ServeHTTP(w, r)
}

// dropHeader drops the header of a refused request. For HTTP/2, where the client controls
// how much of the answer is sent, it bounds the time for the answer.
func dropHeader(w http.ResponseWriter, r *http.Request) {
	r.Header = nil
	if r.ProtoMajor == 2 {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(stallTimeout)) // the place of the stream is bounded anyway
	}
}

// countFields returns the number of header fields of a request.
func countFields(r *http.Request) int {
	n := 0
	for _, values := range r.Header {
		n += len(values)
	}
	return n
}

// Stats returns the current counts.
func (l *Limiter) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Stats{Open: l.all.len() + l.spares.len(), Busy: l.busy, Closed: l.closedCount, Refused: l.refusedCount}
}

// prepareLogLine returns a function that logs the counts, or that does nothing if they are
// unchanged or were logged in the last 10 s. The caller must hold mu, and call the
// function without holding it.
func (l *Limiter) prepareLogLine() func() {
	now := time.Now()
	closed, refused := l.closedCount-l.loggedClosed, l.refusedCount-l.loggedRefused
	if closed+refused == 0 || now.Sub(l.logged) < logInterval {
		return func() {}
	}
	l.logged, l.loggedClosed, l.loggedRefused = now, l.closedCount, l.refusedCount
	open := l.all.len()
	return func() {
		l.opts.Logger.Warn("too many connections: closing idle connections for new ones, refusing others",
			"listener", l.opts.Name, "open", open, "limit", l.opts.Total, "closed", closed, "refused", refused)
	}
}

// conn is a counted connection.
type conn struct {
	net.Conn
	limiter *Limiter
	address netip.Prefix
	since   time.Time // time of the accept
	spare   bool
	timer   *time.Timer // closes a spare connection
	// requests is the connection that net/http reads HTTP/1 from, or nil for HTTP/2. It
	// is set before the connection is served.
	requests *requestConn
	// secure is the TLS state of HTTP/2 requests.
	secure *tls.ConnectionState
	// frames is the connection that net/http reads HTTP/2 from. It is nil before the
	// handshake and for HTTP/1.
	frames atomic.Pointer[frameConn]

	// isAnswerUnsent is true from the start of an HTTP/1 request until its answer is written,
	// because net/http writes the end of the answer after the handler returned.
	isAnswerUnsent atomic.Bool
	// hasLateStream is true while an HTTP/2 stream has no place.
	hasLateStream atomic.Bool

	// Guarded by limiter.mu.
	busy      int // requests in progress
	isRemoved bool
}

// finishAnswer ends the HTTP/1 request whose answer is written.
func (c *conn) finishAnswer() {
	if c.isAnswerUnsent.CompareAndSwap(true, false) {
		c.limiter.end(c)
	}
}

// cut closes the connection and ends the waits of its frameConn, because net/http
// notices the end only when it reads.
func (c *conn) cut() error {
	if f := c.frames.Load(); f != nil {
		f.stopWaits()
	}
	return c.Conn.Close()
}

// Close closes the connection and stops counting it.
func (c *conn) Close() error {
	c.limiter.mu.Lock()
	c.limiter.remove(c)
	c.limiter.mu.Unlock()
	return c.cut()
}

// addressOf returns the address that a connection is counted under. All connections
// without a TCP address, such as those of a Unix socket, count as one.
func addressOf(a net.Addr) netip.Prefix {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	addr := tcp.AddrPort().Addr().Unmap().WithZone("")
	bits := cmp.Or(addr.BitLen(), 0)
	if addr.Is6() {
		if bits = 64; addr.IsLoopback() {
			bits = 128
		}
	}
	p, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}
