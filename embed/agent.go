package embed

import (
	"context"
	"errors"
	"fmt"
	"io"

	"daybook/acp"
	"daybook/events"
	"daybook/internal/tools/toolserver"
	"daybook/internal/web/access"
	"daybook/ledger"
)

// newAgent makes what serves the Agent Client Protocol.
func (d *Daybook) newAgent() *acp.Server {
	return acp.New(acp.Options{
		Commands:            agentGate{gate{d.ledger, d}},
		Queries:             d.projections,
		Contexts:            d.agentContexts(),
		Connect:             d.connectTools,
		Count:               func() error { return countAgentRequest(d.quotas) },
		Stateless:           d.opts.Stateless,
		HeapMemoryMB:        d.opts.HeapMemoryMB,
		HeapMemoryCeilingMB: d.opts.HeapMemoryCeilingMB,
		TimeoutSecs:         d.opts.TimeoutSecs,
		Version:             d.opts.Version,
		Logger:              d.opts.Logger,
	})
}

// countAgentRequest counts a request of an ACP client as one of its tenant.
func countAgentRequest(q *access.Quotas) error {
	err := q.Request(access.Identity{Tenant: events.DefaultTenant})
	if over, limited := errors.AsType[*access.LimitError](err); limited {
		return &ledger.Error{Code: ledger.CodeExhausted, Message: over.Error(), Err: over}
	}
	return err
}

// ServeACP serves one client of the Agent Client Protocol over a pair of streams
// until in ends, ctx is done or the Daybook is closed. Nothing but its messages is
// written to out.
func (d *Daybook) ServeACP(ctx context.Context, in io.Reader, out io.Writer) error {
	return d.acp.Serve(ctx, in, out)
}

// agentGate holds prompts to what holds for runs.
type agentGate struct{ gate }

// Prompt refuses runs over a quota, and while shutting down those of clients that
// have no other server to ask.
func (g agentGate) Prompt(ctx context.Context, p ledger.AgentPrompt) (ledger.Prompted, error) {
	if p.Run == nil {
		return g.Ledger.Prompt(ctx, p)
	}
	if g.d.draining.Load() && p.ID == "" { // prompts that come over a link have one
		return ledger.Prompted{}, &ledger.Error{Code: ledger.CodeUnavailable, Message: "the server is shutting down and takes no new runs; try again when it is back"}
	}
	run := *p.Run
	run.Tenant, p.Run = p.Tenant, &run
	place, err := g.d.admit(ctx, &run)
	if over, limited := errors.AsType[*access.LimitError](err); limited {
		return ledger.Prompted{}, &ledger.Error{Code: ledger.CodeExhausted, Message: over.Error(), Err: over}
	}
	if err != nil {
		return ledger.Prompted{}, fmt.Errorf("take the prompt: %w", err)
	}
	done, err := g.Ledger.Prompt(ctx, p)
	if err != nil {
		place.Free()
		return done, err
	}
	place.Taken(done.Seq)
	return done, nil
}

// toolConfig is a client's server as package toolserver knows it.
func toolConfig(s acp.ToolServer) toolserver.Config {
	return toolserver.Config{
		Name: s.Name, Transport: toolserver.Transport(s.Transport),
		Command: s.Command, Args: s.Args, Env: s.Env, Dir: s.Dir, URL: s.URL, Headers: s.Headers, Roots: s.Roots,
	}
}

func (d *Daybook) connectTools(servers []acp.ToolServer) (acp.Toolbox, error) {
	configs := make([]toolserver.Config, len(servers))
	for i, s := range servers {
		configs[i] = toolConfig(s)
	}
	set, err := toolserver.Connect(configs, toolserver.Options{Version: d.opts.Version, Logger: d.opts.Logger, Memory: toolMemory{d.budget}})
	if err != nil {
		return nil, err
	}
	return toolbox{set}, nil
}

// toolbox is a set of servers as package acp sees it.
type toolbox struct{ *toolserver.Set }

// Call calls a tool.
func (b toolbox) Call(ctx context.Context, server, tool string, arguments []byte) acp.CallResult {
	got := b.Set.Call(ctx, events.DefaultTenant, server, tool, arguments)
	return acp.CallResult{Outcome: events.HostOutcome(got.Outcome), Text: got.Text, Release: got.Release}
}

// Problems reports the servers that cannot be called.
func (b toolbox) Problems(ctx context.Context) map[string]string {
	return b.Set.Problems(ctx, events.DefaultTenant)
}

// Tools lists what can be called.
func (b toolbox) Tools(ctx context.Context) []acp.Tool {
	tools := b.Set.Tools(ctx, events.DefaultTenant)
	list := make([]acp.Tool, len(tools))
	for i, t := range tools {
		list[i] = acp.Tool{Server: t.Server, Name: t.Name, Description: t.Description, ReadOnly: t.ReadOnly, Destructive: t.Destructive}
	}
	return list
}
