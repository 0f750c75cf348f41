package acp

import (
	"context"
	"log/slog"
	"sync"

	"daybook/events"
)

// Options set up a Server. Commands and Queries are required.
type Options struct {
	Commands Commands
	Queries  Queries
	// Contexts are those that runs belong to; nil for none.
	Contexts Contexts
	// Connect begins to connect to the tool servers of a session and does not wait
	// for any of them. Nil offers none: sessions are told so.
	Connect func(servers []ToolServer) (Toolbox, error)
	// Count counts a request of a client. Its error refuses the request. Nil counts
	// none.
	Count func() error
	// Stateless is set when no heap is kept: then there are no sessions to open.
	Stateless bool
	// HeapMemoryMB and HeapMemoryCeilingMB are the heap limit that a run has unless
	// its session says otherwise, and the largest one it may say.
	HeapMemoryMB, HeapMemoryCeilingMB int
	// TimeoutSecs is the wall-clock limit of a run likewise.
	TimeoutSecs int
	// Version is reported to clients.
	Version string
	// Logger gets what no client is told; default discards.
	Logger *slog.Logger
}

// Server serves any number of clients, each with any number of sessions. It is
// safe for concurrent use. Close ends it.
type Server struct {
	opts Options
	// life ends with the server.
	life context.Context //nolint:containedctx // the server's own
	end  context.CancelFunc

	clients sync.WaitGroup

	mu sync.Mutex
	// live are the sessions that some client has open, by id.
	live map[string]*session
}

// New makes a server. It starts nothing.
func New(opts Options) *Server {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{opts: opts, live: map[string]*session{}}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// Close ends every connection, cancels what runs, and returns when that is done.
func (s *Server) Close() error {
	s.mu.Lock()
	s.end()
	s.mu.Unlock()
	s.clients.Wait()
	return nil
}

// enter counts a client in, unless the server has ended.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.Err() != nil {
		return false
	}
	s.clients.Add(1)
	return true
}

// tenant owns what clients on a pipe of this machine do.
const tenant = events.DefaultTenant
