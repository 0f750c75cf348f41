package acp

import (
	"context"
	"log/slog"
	"sync"

	"daybook/events"
	"daybook/internal/tools/toolserver"
)

// Options configure a Server. Commands and Queries are required.
type Options struct {
	Commands Commands
	Queries  Queries
	// Contexts holds the conversation contexts of runs. Nil: runs have none.
	Contexts Contexts
	// Connect starts to connect to the tool servers of a session. It MUST NOT wait for
	// them. Nil: no tool server is available, and a client that names one for a session
	// gets a message about it.
	Connect func(servers []toolserver.Config) (Toolbox, error)
	// Count is called for each request of a client. Its error refuses the request.
	// Nil: requests are not counted.
	Count func() error
	// Stateless is set if the server saves no heaps. Clients then cannot open
	// sessions.
	Stateless bool
	// HeapMemoryMB is the heap limit, in MB, of the runs of a session that sets none.
	// HeapMemoryCeilingMB is the largest limit that a session may set.
	HeapMemoryMB, HeapMemoryCeilingMB int
	// TimeoutSecs is the wall-clock limit, in seconds, of the runs of a session that
	// sets none.
	TimeoutSecs int
	// Version is reported to clients.
	Version string
	// Logger receives errors that no client can receive. Default: discarded.
	Logger *slog.Logger
}

// Server serves any number of clients. A client has at most 256 sessions open. The caller
// MUST call Close. A Server is safe for concurrent use.
type Server struct {
	opts Options
	// ctx is done when Close is called.
	ctx    context.Context //nolint:containedctx // the server's own
	cancel context.CancelFunc

	clients sync.WaitGroup

	mu sync.Mutex
	// openSessions holds the open sessions by id. Guarded by mu.
	openSessions map[string]*session
}

// New returns a Server. It starts no goroutine.
func New(opts Options) *Server {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{opts: opts, openSessions: map[string]*session{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Close ends every connection, cancels the running prompts, and waits for both. It
// returns nil.
func (s *Server) Close() error {
	s.mu.Lock()
	s.cancel()
	s.mu.Unlock()
	s.clients.Wait()
	return nil
}

// addClient adds a client that Close waits for. It reports false if the server is closed.
func (s *Server) addClient() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.clients.Add(1)
	return true
}

// tenant owns the sessions of all clients: the clients connect through pipes of this
// machine and have no identity of their own.
const tenant = events.DefaultTenant
