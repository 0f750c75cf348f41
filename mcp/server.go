package mcp

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/time/rate"

	"daybook/events"
	"daybook/internal/resources/budget"
	"daybook/internal/resources/reads"
	"daybook/internal/tools/catalog"
	"daybook/internal/web/access"
)

// Options set up a Server. Commands and Queries are required.
type Options struct {
	// Commands and Queries do the work. Queries must follow the same book that
	// Commands write.
	Commands Commands
	Queries  Queries
	// Contexts keeps what happened in each conversation; without it the tools about
	// that answer that there is none.
	Contexts Contexts
	// Catalog tells what code may use; default what every isolate has built in.
	Catalog Catalog
	// Stateless offers one tool, a run_js that waits for the end of the run.
	// The ledger must be stateless too.
	Stateless bool
	// Instructions replace what clients are told about the server as a whole;
	// empty keeps the built-in text.
	Instructions string
	// RunJSDescription replaces the description of run_js; empty keeps the
	// built-in text.
	RunJSDescription string
	// CallsServers reports whether scripts of a tenant can call MCP servers, which
	// may change anything; nil is no. Clients are told so of run_js.
	CallsServers func(tenant string) bool
	// SessionID is the session name of stdio connections that are given none
	// of their own; empty means that their runs are not logged under a name.
	SessionID string
	// Version is Daybook's version, shown to clients.
	Version string
	// Hosts are the hosts that HTTP requests may address besides loopback names
	// and addresses, each with or without a port: the public name of a proxy in
	// front, for example. Requests to other hosts are refused.
	Hosts []string
	// Auth tells whose a bearer token of an HTTP request is; nil lets everybody
	// in. Streams are served to the user of this process, without a token.
	Auth access.Authenticator
	// Quotas count what one request or connection holds beyond the first message,
	// which the HTTP server in front counts; nil for no limits.
	Quotas *access.Quotas
	// PublicURL is the address clients know the service by, where a proxy changes
	// it; empty for the one they use.
	PublicURL string
	// Budget bounds the memory that answers hold; nil for no limits.
	Budget *budget.Budget
	// Reads shares the processor time for heavy reads; nil for no limits.
	Reads *reads.Gate
	// Fixtures, if any, are mounted for a test suite.
	Fixtures *Fixtures
	// Unanswerable, if set, is why no tool can answer, or nil: the read side lacks
	// something that is on record.
	Unanswerable func() error
	// Logger gets internal failures; default slog.Default.
	Logger *slog.Logger
}

// Server offers the tools. It is safe for concurrent use. Close ends it.
//
// Each tenant has one of its own, so that nothing one does, reads or watches
// can reach another's clients; New makes that of the default tenant, and the
// others come with their first request.
type Server struct {
	opts              Options
	logger            *slog.Logger
	tenant            string
	sdk               *sdk.Server
	tenants           *tenants
	transportSessions *transportSessions

	watches *watches
	// foreignReadLog bounds the log lines about reads of other sessions' contexts, which
	// clients can cause.
	foreignReadLog rate.Sometimes

	// serverCtx ends with Close; every call in progress ends with it.
	serverCtx context.Context
	cancel    context.CancelCauseFunc
}

// logInterval is the least time between two log lines that clients of a tenant can cause.
const logInterval = 10 * time.Second

// errClosing is why calls end when the server does, as opposed to the client's
// wish.
var errClosing = errors.New("the server is shutting down")

// defaultInstructions tell a model what there is before it reads any tool.
const (
	defaultInstructions = "Daybook runs JavaScript and TypeScript in V8 and records every run, its output and its result. " +
		"Call run_js with wait_secs to get status, result and output in one answer; for a longer run call get_execution with wait_secs, and get_execution_output for the rest of the output. " +
		"To keep variables and functions, pass the heap of a run to the next run_js. " +
		"For a task of many runs call open_session once and pass its logical_session_ref to every run_js; discover_tools, called once with the whole task as intent, finds what code can call."
	statelessInstructions = "Daybook runs JavaScript and TypeScript in V8. run_js runs a script to its end and returns its console output. No state is kept between runs."
)

// New makes a server. It starts nothing; Handler, SSEHandler and ServeStdio
// take connections.
func New(opts Options) *Server {
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if opts.Catalog == nil {
		opts.Catalog = catalog.New(nil, catalog.Builtin{})
	}
	if opts.Version == "" {
		opts.Version = "dev"
	}
	if opts.Instructions == "" {
		opts.Instructions = defaultInstructions
		if opts.Stateless {
			opts.Instructions = statelessInstructions
		}
	}
	s := &Server{opts: opts, logger: opts.Logger, tenants: &tenants{servers: map[string]*Server{}, largeCode: newLargeCodeStore()}, transportSessions: newTransportSessions()}
	s.serverCtx, s.cancel = context.WithCancelCause(context.Background())
	return s.forTenant(events.DefaultTenant)
}

// tenants are the servers of all tenants.
type tenants struct {
	accounts  accounts
	largeCode *largeCodeStore

	mu      sync.Mutex
	servers map[string]*Server // guarded by mu
}

// all returns them.
func (t *tenants) all() []*Server {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.servers))
}

// forTenant returns the server of a tenant, which is made if there is none yet.
func (s *Server) forTenant(tenant string) *Server {
	s.tenants.mu.Lock()
	defer s.tenants.mu.Unlock()
	if known := s.tenants.servers[tenant]; known != nil {
		return known
	}
	one := &Server{opts: s.opts, logger: s.logger, tenant: tenant, tenants: s.tenants, transportSessions: s.transportSessions, serverCtx: s.serverCtx, cancel: s.cancel, watches: newWatches(), foreignReadLog: rate.Sometimes{Interval: logInterval}}
	one.build()
	s.tenants.servers[tenant] = one
	return one
}

// build sets up what the SDK serves.
func (s *Server) build() {
	opts := s.opts
	sdkOpts := &sdk.ServerOptions{
		Instructions: opts.Instructions,
		Logger:       slog.New(demotedHandler{opts.Logger.Handler()}),
		// What is offered never changes while a server lives.
		Capabilities: &sdk.ServerCapabilities{
			Tools:   &sdk.ToolCapabilities{},
			Logging: &sdk.LoggingCapabilities{}, //nolint:staticcheck // deprecated, and what clients have
		},
		SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { c.CacheScope = "private" },
	}
	sdkOpts.Capabilities.AddExtension(tasksExtension, nil)
	if !opts.Stateless {
		sdkOpts.Capabilities.Resources = &sdk.ResourceCapabilities{Subscribe: true}
		sdkOpts.SubscribeHandler, sdkOpts.UnsubscribeHandler = s.subscribe, s.unsubscribe
	}
	if opts.Fixtures != nil {
		declareFixtures(sdkOpts, opts.Fixtures)
	}
	s.sdk = sdk.NewServer(&sdk.Implementation{Name: "daybook", Title: "Daybook", Version: opts.Version}, sdkOpts)
	byName := map[string]tool{}
	for _, t := range s.tools() {
		s.sdk.AddTool(t.declaration(), s.handler(t))
		byName[t.name] = t
	}
	s.addTaskMethods()
	if opts.Fixtures != nil {
		opts.Fixtures.Mount(s.sdk)
	}
	s.sdk.AddReceivingMiddleware(s.tasksOnCall(byName), rememberLevel)
	u := &updates{serverCtx: s.serverCtx, running: &s.watches.running, pending: map[sdk.Session]map[string]func(context.Context){}}
	s.sdk.AddSendingMiddleware(u.middleware)
	if !opts.Stateless {
		for _, r := range s.resources() {
			s.sdk.AddResourceTemplate(r.template(), s.reader(r))
		}
		s.sdk.AddReceivingMiddleware(s.refuseBadAddresses)
	}
	s.sdk.AddReceivingMiddleware(s.limitListen, limitSession, s.accountMemory, s.withPermit, s.refuseUnknownNames(byName), refuseSecondInitialize, answerRefusals)
	s.sdk.AddReceivingMiddleware(s.identify) // the last one added is the first to see a request
}

// callsServers reports whether a script can reach something outside.
func (s *Server) callsServers() bool {
	return s.opts.CallsServers != nil && s.opts.CallsServers(s.tenant)
}

// tools is the table of everything offered.
func (s *Server) tools() []tool {
	if s.opts.Stateless {
		return s.statelessTools()
	}
	var all []tool
	for _, group := range [][]tool{s.runTools(), s.executionTools(), s.heapTools(), s.sessionTools(), s.logicalTools(), {s.resetTool()}, s.contextTools(), s.fixtureTools()} {
		all = append(all, group...)
	}
	return all
}

// Close ends calls in progress and all connections, and waits for them. Runs
// are not affected: they are on record and go on. Call it before closing the
// HTTP server, which would make every waiting client look like one that hung
// up.
func (s *Server) Close() error {
	s.cancel(errClosing)
	var wg sync.WaitGroup
	for _, one := range s.tenants.all() {
		for ss := range one.sdk.Sessions() {
			wg.Go(func() { _ = ss.Close() }) // a connection already broken is closed
		}
	}
	wg.Wait()
	for _, one := range s.tenants.all() {
		one.watches.wait()
	}
	return nil
}

// demotedHandler turns the SDK's log, which reports clients' mistakes and every
// connection as errors and information, down to debug.
type demotedHandler struct{ next slog.Handler }

func (q demotedHandler) Enabled(ctx context.Context, _ slog.Level) bool {
	return q.next.Enabled(ctx, slog.LevelDebug)
}

func (q demotedHandler) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	return q.next.Handle(ctx, r)
}

func (q demotedHandler) WithAttrs(a []slog.Attr) slog.Handler {
	return demotedHandler{q.next.WithAttrs(a)}
}

func (q demotedHandler) WithGroup(name string) slog.Handler {
	return demotedHandler{q.next.WithGroup(name)}
}
