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
	// spareConnections is how many connections beyond the bound are open at once, to
	// be answered a refusal or the server's health.
	spareConnections = 64
	// spareTime is how long such a connection lasts, spareGrace how long it lasts
	// without a request when others wait.
	spareTime  = 5 * time.Second
	spareGrace = 100 * time.Millisecond
	// maxStreams, frameBytes and windowBytes bound what a connection of HTTP/2 holds:
	// requests, the largest frame, and what was received of bodies and not read, in
	// bytes.
	maxStreams  = 100
	frameBytes  = 16 << 10
	windowBytes = 64 << 10
	// logEvery is the least time between two log lines about the bounds.
	logEvery = 10 * time.Second
)

// Options set up a Limiter.
type Options struct {
	// Name says in the log which connections these are: "HTTP".
	Name string
	// Total is how many connections may be open. It MUST be positive.
	Total int
	// PerAddress is how many connections one address may have open; the addresses of
	// an IPv6 network of 64 bits count as one. 0 means half of Total, and Total for
	// loopback addresses, which all clients behind a proxy on this machine share.
	PerAddress int
	// Refuse answers a request on a connection that is beyond a bound. It MUST NOT
	// block. Health reports whether a request is answered on such a connection all
	// the same.
	Refuse http.HandlerFunc
	Health func(*http.Request) bool
	// Logger gets a line when a bound is met, at most one every 10 s. Default:
	// slog.Default.
	Logger *slog.Logger
}

// Stats counts what a Limiter did.
type Stats struct {
	// Open is how many connections are open now, Busy how many of them have a
	// request.
	Open, Busy int
	// Closed counts connections without a request that were closed for new ones,
	// Refused those that were refused.
	Closed, Refused uint64
}

// Limiter bounds the connections that its Listener accepts. Its methods ConnContext,
// ConnState and Handler MUST be set on the server. It is safe for concurrent use.
type Limiter struct {
	opts Options
	// streams are those of HTTP/2: one for each connection, and some for refusals.
	streams streams
	// surplus lets the connections take turns whose clients cause much work.
	surplus pace
	// shutdown is true once the listener of TLS is closed.
	shutdown atomic.Bool

	mu      sync.Mutex
	all     queue // without spare connections
	spares  queue
	of      map[netip.Prefix]*queue
	busy    int
	closed  uint64
	refused uint64
	// requests counts those that are served, ending is true once the server shuts down.
	requests int
	ending   bool
	// logged is when a line was last logged, and the counts of then.
	logged                      time.Time
	loggedClosed, loggedRefused uint64
}

// New makes a Limiter.
func New(opts Options) *Limiter {
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	return &Limiter{opts: opts, of: map[netip.Prefix]*queue{}, streams: streams{most: opts.Total + spareConnections, wait: placeTime}}
}

// Bind sets a Limiter's methods and the bounds of HTTP/2 on a server. The caller serves
// Listener(l) or SecureListener(l).
func (l *Limiter) Bind(s *http.Server) {
	s.Handler = l.handler(s.Handler)
	s.DisableGeneralOptionsHandler = true // the handler sees every request
	// Connections of HTTP/2 are frameConns, which hide TLS. Those without TLS are
	// requestConns, which let no HTTP/2 through.
	s.Protocols = new(http.Protocols)
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	s.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams:          maxStreams,
		MaxReadFrameSize:              frameBytes,
		MaxDecoderHeaderTableSize:     hpackTable, // as in block
		MaxReceiveBufferPerConnection: windowBytes,
		MaxReceiveBufferPerStream:     windowBytes,
		WriteByteTimeout:              unreadTime,
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
				own.requests.keep()
			}
			l.keep(own)
			own.answered()
		case state == http.StateIdle && own.requests != nil:
			own.requests.idle()
			own.answered()
		}
	}
	s.RegisterOnShutdown(l.closeIdle)
}

// closeIdle closes the connections without a request. The server itself waits for
// those that have sent a part of one. It also closes those of HTTP/2 that had a request,
// once their answers are written.
func (l *Limiter) closeIdle() {
	var list []*conn
	l.mu.Lock()
	l.ending = true
	for _, q := range []*queue{&l.all, &l.spares} {
		for e := q.idle.Front(); e != nil; e = e.Next() {
			list = append(list, e.Value.(*conn))
		}
	}
	l.mu.Unlock()
	for _, c := range list {
		if f := c.frames.Load(); f == nil || !f.hadStream() {
			_ = c.Close() // the server is about to end
		}
	}
}

type connKey struct{}

// unwrap is the connection that the Limiter's listener accepted, or nil.
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

// Listener returns a listener that accepts what the bounds allow of another one.
func (l *Limiter) Listener(inner net.Listener) net.Listener { return &listener{inner, l} }

type listener struct {
	net.Listener
	limiter *Limiter
}

// Accept returns the next connection that is to be served.
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

// admit makes a connection one of those counted. It returns nil for one that it
// closed.
func (l *Limiter) admit(inner net.Conn) *conn {
	c := &conn{Conn: inner, limiter: l, address: addressOf(inner.RemoteAddr()), since: time.Now()}
	l.mu.Lock()
	victim := l.room(c.address)
	switch {
	case victim != nil:
		l.remove(victim)
		l.closed++
		l.add(c)
	case l.fits(c.address):
		l.add(c)
	case l.spareRoom(&victim):
		c.spare = true
		l.refused++
		l.spares.push(c)
		c.timer = time.AfterFunc(spareTime, func() { _ = c.cut() }) // the client has had its time
	default:
		l.refused++
		c.gone = true
	}
	line := l.line()
	l.mu.Unlock()
	if victim != nil {
		_ = victim.cut() // the client loses it anyway
	}
	line()
	if c.gone {
		inner.Close()
		return nil
	}
	return c
}

// spareRoom reports whether there may be another spare connection, and takes out
// the one to close for it. The caller must hold mu.
func (l *Limiter) spareRoom(victim **conn) bool {
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

// fits reports whether one more connection of an address is within the bounds. The
// caller must hold mu.
func (l *Limiter) fits(address netip.Prefix) bool {
	return l.all.len() < l.opts.Total && l.of[address].len() < l.bound(address)
}

// room is the connection to close for a new one of an address: nil if there is
// none, or none has to be. The caller must hold mu.
func (l *Limiter) room(address netip.Prefix) *conn {
	if mine := l.of[address]; mine.len() >= l.bound(address) {
		return mine.oldest()
	}
	if l.all.len() < l.opts.Total {
		return nil
	}
	// Of the address that has the most to give.
	var heaviest *queue
	for _, q := range l.of {
		if q.waiting() > 0 && (heaviest == nil || q.len() > heaviest.len()) {
			heaviest = q
		}
	}
	return heaviest.oldest()
}

func (l *Limiter) bound(address netip.Prefix) int {
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
	q := l.of[c.address]
	if q == nil {
		q = &queue{}
		l.of[c.address] = q
	}
	q.push(c)
	l.all.push(c)
}

// remove counts a connection no more. The caller must hold mu.
func (l *Limiter) remove(c *conn) {
	if c.gone {
		return
	}
	c.gone = true
	if c.busy > 0 {
		l.busy--
	}
	if c.spare {
		c.timer.Stop()
		l.spares.drop(c)
		return
	}
	l.all.drop(c)
	q := l.of[c.address]
	if q.drop(c); q.len() == 0 {
		delete(l.of, c.address)
	}
}

// begin and end are called around each request of a connection. begin reports whether
// the request may be served: the first one of a connection may, further ones of HTTP/2
// while there are no more requests than there may be connections. While a stream of a
// connection is late, requests that begin there are refused.
func (l *Limiter) begin(c *conn) (fits bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests++
	fits = (c.busy == 0 || l.requests <= l.opts.Total) && !c.late.Load()
	l.work(c)
	return fits
}

func (l *Limiter) end(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests--
	if c.busy--; c.busy == 0 && !c.gone {
		l.busy--
		l.rest(c, true)
	}
}

// running is how many requests of a connection have handlers.
func (l *Limiter) running(c *conn) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return c.busy
}

// work notes that a connection has one more request. The caller must hold mu.
func (l *Limiter) work(c *conn) {
	if c.busy++; c.busy == 1 && !c.gone {
		l.busy++
		l.rest(c, false)
	}
}

// keep never closes a connection for another one: its protocol is not HTTP any
// more.
func (l *Limiter) keep(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.work(c)
}

// rest notes that a connection has no request from now on, or has one. The caller
// must hold mu.
func (l *Limiter) rest(c *conn, without bool) {
	queues := []*queue{&l.all, l.of[c.address]}
	if c.spare {
		queues = []*queue{&l.spares}
	}
	for _, q := range queues {
		if without {
			q.wait(c)
		} else {
			q.work(c)
		}
	}
}

// handler notes which connections have a request, and refuses those of spare
// connections.
func (l *Limiter) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _ := r.Context().Value(connKey{}).(*conn)
		if c == nil {
			next.ServeHTTP(w, r)
			return
		}
		// net/http holds its request until the answer is sent. The handler's own may drop
		// its header before that.
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
		c.unsent.Store(true) // until answered
	}
	if fields(r) > maxLines {
		refusing(w, r)
		w.Header().Set("Connection", "close")
		http.Error(w, "the request header has more than "+strconv.Itoa(maxLines)+" fields; send fewer fields", http.StatusRequestHeaderFieldsTooLarge)
		return
	}
	if c.spare {
		w.Header().Set("Connection", "close")
	}
	if (c.spare || !fits) && !l.opts.Health(r) {
		refusing(w, r)
		l.opts.Refuse(w, r)
		return
	}
	next.ServeHTTP(w, r)
}

// refusing drops the header of a request that is refused, and bounds the time that the
// answer may take in HTTP/2, where the client says how much of it is sent.
func refusing(w http.ResponseWriter, r *http.Request) {
	r.Header = nil
	if r.ProtoMajor == 2 {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(stallTime)) // the place of the stream is bounded anyway
	}
}

// fields is how many header fields a request has.
func fields(r *http.Request) int {
	n := 0
	for _, values := range r.Header {
		n += len(values)
	}
	return n
}

// Stats returns the counts of now.
func (l *Limiter) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Stats{Open: l.all.len() + l.spares.len(), Busy: l.busy, Closed: l.closed, Refused: l.refused}
}

// line returns a function that logs the counts, unless they are as they were or
// were logged just now. The caller must hold mu, and call the function without.
func (l *Limiter) line() func() {
	now := time.Now()
	closed, refused := l.closed-l.loggedClosed, l.refused-l.loggedRefused
	if closed+refused == 0 || now.Sub(l.logged) < logEvery {
		return func() {}
	}
	l.logged, l.loggedClosed, l.loggedRefused = now, l.closed, l.refused
	open := l.all.len()
	return func() {
		l.opts.Logger.Warn("too many connections: those without a request are closed for new ones, others are refused",
			"listener", l.opts.Name, "open", open, "limit", l.opts.Total, "closed", closed, "refused", refused)
	}
}

// conn is a connection that is counted.
type conn struct {
	net.Conn
	limiter *Limiter
	address netip.Prefix
	since   time.Time // accepted
	spare   bool
	timer   *time.Timer // of a spare connection
	// requests is what HTTP/1 reads the connection through; nil for HTTP/2. It is set
	// before the connection is served.
	requests *requestConn
	// secure is the state of TLS that requests of HTTP/2 have.
	secure *tls.ConnectionState
	// frames is what HTTP/2 reads the connection through; nil before and for HTTP/1.
	frames atomic.Pointer[frameConn]

	// unsent is true while a request of HTTP/1 is served and until its answer is
	// written: net/http writes the end of it behind the handler.
	unsent atomic.Bool
	// late is true while a stream of HTTP/2 has no place.
	late atomic.Bool

	// These are guarded by the limiter's mu.
	busy int // requests in progress
	gone bool
}

// answered ends the request of HTTP/1 whose answer is written.
func (c *conn) answered() {
	if c.unsent.CompareAndSwap(true, false) {
		c.limiter.end(c)
	}
}

// cut closes the connection. It ends what the connection waits for above: net/http learns
// of the end only when it reads.
func (c *conn) cut() error {
	if f := c.frames.Load(); f != nil {
		f.leave()
	}
	return c.Conn.Close()
}

// Close closes the connection and gives up its place.
func (c *conn) Close() error {
	c.limiter.mu.Lock()
	c.limiter.remove(c)
	c.limiter.mu.Unlock()
	return c.cut()
}

// addressOf is the address that connections are counted under: all others, such as
// those of a Unix socket, count as one.
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
