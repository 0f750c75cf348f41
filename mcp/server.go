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

// Options configure a Server. Commands and Queries are required.
type Options struct {
	// Commands is the write side and Queries the read side. Queries MUST follow the ledger
	// that Commands writes.
	Commands Commands
	Queries  Queries
	// Contexts keeps the conversation contexts. If nil, the tools for them return an error.
	Contexts Contexts
	// Catalog lists the APIs that code may use. Default: the APIs that every isolate has.
	Catalog Catalog
	// Stateless offers one tool: a run_js that waits for the end of the run. The ledger MUST
	// be stateless too.
	Stateless bool
	// Instructions replaces the text that describes the server to clients. Empty keeps the
	// built-in text.
	Instructions string
	// RunJSDescription replaces the description of run_js. Empty keeps the built-in text.
	RunJSDescription string
	// WASMModules are the names of the WebAssembly modules for scripts; run_js lists them.
	WASMModules []string
	// CallsServers reports whether scripts of a tenant can call tool servers, which may
	// change anything. If they can, the hints of run_js say that it may destroy data and
	// reach other systems. Nil means that no script can.
	CallsServers func(tenant string) bool
	// SessionID is the session name of stdio connections without a name of their own. Empty
	// means that their runs are in no session log.
	SessionID string
	// Version is Daybook's version, as clients see it. Default: "dev".
	Version string
	// Hosts are the hosts that HTTP requests may address besides loopback names and
	// addresses, each with or without a port, such as the public name of a proxy. Requests
	// to other hosts are refused.
	Hosts []string
	// Auth identifies the caller by the bearer token of an HTTP request. Nil accepts requests
	// without a token. Clients of ServeStdio need no token: they have the identity
	// access.Anonymous.
	Auth access.Authenticator
	// Quotas counts what the HTTP server does not count against the rate limit: the messages
	// of a batch and the addresses of a subscriptions/listen after the first one, and all
	// messages of ServeStdio. Nil means no limits.
	Quotas *access.Quotas
	// PublicURL is the URL under which clients know the service, if a proxy changes it.
	// Empty means the URL of the request.
	PublicURL string
	// Budget limits the memory that responses hold. Nil means no limits.
	Budget *budget.Budget
	// Reads shares the processor time for heavy reads. Nil means no limits.
	Reads *reads.Gate
	// Fixtures, if set, are mounted for a test suite.
	Fixtures *Fixtures
	// Unanswerable, if set, returns an error while the read side lacks recorded data. Every
	// tool call then fails with this error.
	Unanswerable func() error
	// Logger receives internal failures, which clients are not shown. Default:
	// slog.Default().
	Logger *slog.Logger
}

// Server serves the tools of one tenant. It is safe for concurrent use. The caller of
// New MUST close it.
//
// Each tenant has a Server of its own, so that no call of a tenant can reach, read or
// watch the clients of another one. New returns the Server of the default tenant. The
// others are created with the first request of their tenant.
type Server struct {
	opts              Options
	logger            *slog.Logger
	tenant            string
	sdk               *sdk.Server
	tenants           *tenants
	transportSessions *transportSessions

	watches *watches
	// foreignReadLog limits the log lines about reads of the conversation contexts of other
	// sessions, because clients can cause such lines.
	foreignReadLog rate.Sometimes

	// serverCtx ends with Close, and every call in progress with it.
	serverCtx context.Context
	cancel    context.CancelCauseFunc
}

// logInterval is the minimum time between two log lines that clients of a tenant can
// cause.
const logInterval = 10 * time.Second

// errClosing is the cause of calls that end with the server. Calls that the client
// cancels have another cause.
var errClosing = errors.New("the server is shutting down")

// defaultInstructions introduce the server to a model before it reads the tools.
const (
	defaultInstructions = "Daybook runs JavaScript and TypeScript in V8 and records every run, its output and its result. " +
		"Call run_js with wait_secs to get status, result and output in one answer; for a longer run call get_execution with wait_secs, and get_execution_output for the rest of the output. " +
		"To keep variables and functions, pass the heap of a run to the next run_js. " +
		"For a task of many runs call open_session once and pass its logical_session_ref to every run_js; discover_tools, called once with the whole task as intent, finds what code can call."
	statelessInstructions = "Daybook runs JavaScript and TypeScript in V8. run_js runs a script to its end and returns its console output. No state is kept between runs."
)

// New returns the Server of the default tenant. It starts no goroutine and accepts no
// connection: Handler, SSEHandler and ServeStdio do.
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

// tenants holds the servers of all tenants and what they share.
type tenants struct {
	accounts  accounts
	largeCode *largeCodeStore

	mu      sync.Mutex
	servers map[string]*Server // guarded by mu
}

// all returns the servers of all tenants.
func (t *tenants) all() []*Server {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.servers))
}

// forTenant returns the server of a tenant. It creates the server at the first call.
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

// build registers capabilities, tools, resources and middleware with the SDK.
func (s *Server) build() {
	opts := s.opts
	sdkOpts := &sdk.ServerOptions{
		Instructions: opts.Instructions,
		Logger:       slog.New(demotedHandler{opts.Logger.Handler()}),
		// Tools and resources do not change while a server lives.
		Capabilities: &sdk.ServerCapabilities{
			Tools:   &sdk.ToolCapabilities{},
			Logging: &sdk.LoggingCapabilities{}, //nolint:staticcheck // deprecated, but clients use it
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
			s.sdk.AddResourceTemplate(r.template(), s.resourceHandler(r))
		}
		s.sdk.AddReceivingMiddleware(s.refuseBadAddresses)
	}
	s.sdk.AddReceivingMiddleware(s.limitListen, limitSession, s.accountMemory, s.withPermit, s.refuseUnknownNames(byName), refuseSecondInitialize, answerRefusals)
	s.sdk.AddReceivingMiddleware(s.identify) // the middleware added last sees a request first
}

// callsServers reports whether scripts of the tenant can call tool servers.
func (s *Server) callsServers() bool {
	return s.opts.CallsServers != nil && s.opts.CallsServers(s.tenant)
}

// tools returns the table of all tools.
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

// Close ends calls in progress and all connections, and waits for them. Runs continue.
// Call it before closing the HTTP server: otherwise every waiting client would look like
// one that disconnected.
func (s *Server) Close() error {
	s.cancel(errClosing)
	var wg sync.WaitGroup
	for _, one := range s.tenants.all() {
		for ss := range one.sdk.Sessions() {
			wg.Go(func() { _ = ss.Close() }) // a connection that is already broken is closed
		}
	}
	wg.Wait()
	for _, one := range s.tenants.all() {
		one.watches.wait()
	}
	return nil
}

// demotedHandler logs everything at level debug. The SDK logs mistakes of clients at level
// error, and every connection at level info.
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
