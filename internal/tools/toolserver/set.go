package toolserver

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Options configures a Set. The zero value is valid.
type Options struct {
	// ConnectTimeout is the maximum time from the start of a connection until the tools of
	// the server are known. If a server over stdio has not answered server/discover after a
	// third of this time, initialize is sent. Default: 30 s.
	ConnectTimeout time.Duration
	// ListWait is the maximum time that Servers and Tools wait for a server that is being
	// connected, counted from the start of the attempt. Default: 5 s. For a server that
	// has failed before, it is at most 250 ms.
	ListWait time.Duration
	// CallTimeout limits one call if Config.Timeout is 0. Default: 60 s.
	CallTimeout time.Duration
	// Backoff is the pause after a server has failed. It doubles with each consecutive
	// failure, up to 32 times its value. Default: 1 s.
	Backoff time.Duration
	// Version is the version of this program that servers receive. Default: "devel".
	Version string
	// Memory limits the memory of answers; nil means no limit.
	Memory Memory
	// Logger receives events of connections, and errors that no caller can receive.
	// Default: no logging.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, 30*time.Second)
	o.ListWait = cmp.Or(o.ListWait, 5*time.Second)
	o.CallTimeout = cmp.Or(o.CallTimeout, time.Minute)
	o.Backoff = cmp.Or(o.Backoff, time.Second)
	o.Version = cmp.Or(o.Version, "devel")
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Set holds the servers of one scope. It is safe for concurrent use. The caller MUST
// call Close.
type Set struct {
	servers []*server // by name
	opts    Options
	end     context.CancelFunc
	tasks   sync.WaitGroup
}

// New returns a Set. It connects to no server: a server is started when its tools are
// needed. The error is that of CheckAll.
func New(configs []Config, opts Options) (*Set, error) {
	if err := CheckAll(configs); err != nil {
		return nil, err
	}
	s := &Set{opts: opts.withDefaults()}
	var life context.Context
	life, s.end = context.WithCancel(context.Background())
	for _, c := range configs {
		s.servers = append(s.servers, newServer(life, c, s.opts, &s.tasks))
	}
	slices.SortFunc(s.servers, func(a, b *server) int { return cmp.Compare(a.config.Name, b.config.Name) })
	return s, nil
}

// Connect is New for a client that provides its servers at the start of a session. It
// starts all servers and does not wait for them.
func Connect(configs []Config, opts Options) (*Set, error) {
	s, err := New(configs, opts)
	if err != nil {
		return nil, err
	}
	for _, server := range s.servers {
		server.wake()
	}
	return s, nil
}

// Servers returns a list of tool names for each server that a tenant may call, by the name
// of the server. The list is empty if the tools of the server are not known, because the
// server failed or is not connected within Options.ListWait.
func (s *Set) Servers(ctx context.Context, tenant string) map[string][]string {
	names := map[string][]string{}
	for i, tools := range s.lists(ctx, tenant) {
		if tools == nil && !s.servers[i].allows(tenant) {
			continue
		}
		list := make([]string, len(tools))
		for n, t := range tools {
			list[n] = t.Name
		}
		names[s.servers[i].config.Name] = list
	}
	return names
}

// Tools returns the available tools that a tenant may call, ordered by server and name.
// It waits like Servers.
func (s *Set) Tools(ctx context.Context, tenant string) []Tool {
	return slices.Concat(s.lists(ctx, tenant)...)
}

// lists returns the tools of each server. It waits for servers that are being connected.
func (s *Set) lists(ctx context.Context, tenant string) [][]Tool {
	lists := make([][]Tool, len(s.servers))
	var waiting sync.WaitGroup
	for i, server := range s.servers {
		if !server.allows(tenant) {
			continue
		}
		waiting.Go(func() {
			if l, err := server.connection(ctx, s.opts.ListWait); err == nil {
				lists[i] = *l.tools.Load()
			}
		})
	}
	waiting.Wait()
	return lists
}

// Call calls a tool with arguments that are a JSON object. It returns failures as a
// Result too, so that there is always a result for the script. The caller MUST call
// Result.Release.
func (s *Set) Call(ctx context.Context, tenant, name, tool string, arguments []byte) Result {
	at := slices.IndexFunc(s.servers, func(server *server) bool { return server.config.Name == name })
	if at < 0 || !s.servers[at].allows(tenant) {
		return Result{Outcome: Failed, Text: []byte("there is no such server")}
	}
	return s.servers[at].call(ctx, tenant, tool, arguments)
}

// Status returns the human-readable state of each server by name. It contains no
// secrets.
func (s *Set) Status() map[string]string {
	status := map[string]string{}
	for _, server := range s.servers {
		status[server.config.Name] = server.status()
	}
	return status
}

// Problems returns, by server name, why servers of a tenant cannot be called. It
// contains no secrets. It waits for servers that are being connected until ctx is done
// or Options.ListWait has passed.
func (s *Set) Problems(ctx context.Context, tenant string) map[string]string {
	s.lists(ctx, tenant)
	problems := map[string]string{}
	for _, server := range s.servers {
		if why := server.unavailable(); why != "" && server.allows(tenant) {
			problems[server.config.Name] = why
		}
	}
	return problems
}

// Close ends all connections and children, and waits until they have ended. It returns
// nil.
func (s *Set) Close() error {
	s.end()
	for _, server := range s.servers {
		server.close()
	}
	s.tasks.Wait()
	return nil
}
