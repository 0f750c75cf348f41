package toolserver

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Options set up a Set. The zero value works.
type Options struct {
	// ConnectTimeout bounds the start of a server until its tools are known; 30 s. A
	// server over stdio that does not answer server/discover in a third of it gets
	// initialize.
	ConnectTimeout time.Duration
	// ListWait is how long Servers and Tools wait for a server that is being connected,
	// counted from the beginning of that; 5 s. For one that has failed before it is
	// 250 ms at most.
	ListWait time.Duration
	// CallTimeout bounds one call where Config.Timeout does not; 60 s.
	CallTimeout time.Duration
	// Backoff is how long a server that failed is left alone, doubled with each
	// failure in a row up to 32 times; 1 s.
	Backoff time.Duration
	// Version is how this program names itself to servers.
	Version string
	// Memory bounds what the answers of tools take; nil does not.
	Memory Memory
	// Logger gets what happens to connections; nil discards.
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

// Set is the servers of one scope. It is safe for concurrent use. Close ends it.
type Set struct {
	servers []*server // by name
	opts    Options
	end     context.CancelFunc
	tasks   sync.WaitGroup
}

// New makes a set. It connects to nothing: servers are started when their tools
// are first asked for. The error is CheckAll's. The caller must call Close.
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

// Connect is New for a client that gives its servers at the beginning of a
// session: it starts them all and returns without waiting for any.
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

// Servers names the tools of every server that a tenant may call. A server whose
// tools are not known now, because it failed or takes long, has none.
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

// Tools describes the tools that a tenant may call now, by server and name.
func (s *Set) Tools(ctx context.Context, tenant string) []Tool {
	return slices.Concat(s.lists(ctx, tenant)...)
}

// lists returns the tools of each server, waiting a while for those on their way.
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

// Call calls a tool with arguments that are a JSON object. What goes wrong is a
// Result, not an error: there is always one to give to who called. The caller MUST
// call Result.Release.
func (s *Set) Call(ctx context.Context, tenant, name, tool string, arguments []byte) Result {
	at := slices.IndexFunc(s.servers, func(server *server) bool { return server.config.Name == name })
	if at < 0 || !s.servers[at].allows(tenant) {
		return Result{Outcome: Failed, Text: []byte("there is no such server")}
	}
	return s.servers[at].call(ctx, tenant, tool, arguments)
}

// Status tells how each server is doing, for people; the values hold no secrets.
func (s *Set) Status() map[string]string {
	status := map[string]string{}
	for _, server := range s.servers {
		status[server.config.Name] = server.status()
	}
	return status
}

// Problems reports why each server of a tenant cannot be called that cannot, by
// name and without secrets. It waits for servers that are being connected until ctx
// is done, or Options.ListWait has passed.
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

// Close ends all connections and children, and returns when they are gone.
func (s *Set) Close() error {
	s.end()
	for _, server := range s.servers {
		server.close()
	}
	s.tasks.Wait()
	return nil
}
