package owner

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"time"

	"daybook/internal/link"
)

// Options configures a Server. Logger, Serve, Detached and HoldLine are required.
type Options struct {
	// Background makes an owner that releases the data directory on request of another
	// process, or after neither a client nor a run used it for IdleExit. If IdleExit is
	// 0 or less it is released only on request.
	Background bool
	IdleExit   time.Duration
	// Version is the version of this process. Settings are its flags, as --name=value.
	// Clients that differ receive the version, and the names of the flags that differ.
	Version  string
	Settings []string
	Logger   *slog.Logger
	// Serve serves a client until in ends or ctx is done.
	Serve func(ctx context.Context, h Hello, in io.Reader, out io.Writer) error
	// Detached is the cause of the cancelled context of a client that attaches again, to
	// this owner or to the next one.
	Detached error
	// Pace and HoldLine are those of link.Options.
	Pace     link.Pace
	HoldLine func(ctx context.Context, n int64) (release func(), err error)
}

// Server is the owner's end of the socket. Hold and End end it. It is safe for concurrent
// use.
type Server struct {
	opts    Options
	clients *clients
	use     *use
}

// NewServer returns a Server without clients.
func NewServer(opts Options) *Server {
	return &Server{opts: opts, clients: newClients(), use: newUse()}
}

// Handler serves the requests on the socket, and those of other paths with next. The
// requests count as use of the owner.
func (s *Server) Handler(next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+attachPath, s.attach)
	mux.HandleFunc("POST "+handOverPath, s.handOver)
	mux.HandleFunc("GET "+handOverPath, s.ownerKind)
	mux.Handle("/", next)
	return s.use.countRequests(mux)
}

// Clients returns the number of clients that are attached.
func (s *Server) Clients() int {
	s.clients.mu.Lock()
	defer s.clients.mu.Unlock()
	return len(s.clients.conns)
}

// Hold leaves further messages of clients to the next owner.
func (s *Server) Hold() { s.clients.hold() }

// End leaves all clients to the next owner. Before that it waits a short time until the
// requests in progress are answered; the next owner answers those that remain. The caller
// calls Hold, ends the runs, and then calls End. End blocks until no client is served.
func (s *Server) End() { s.clients.end(s.opts.Detached) }
