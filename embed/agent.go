package embed

import (
	"context"
	"errors"
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
		Commands:            agentGate{admission{d.ledger, d}},
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
		return overLimit(over)
	}
	return err
}

// ServeACP serves one client of the Agent Client Protocol over a pair of streams
// until in ends, ctx is done or the Daybook is closed. Nothing but its messages is
// written to out.
func (d *Daybook) ServeACP(ctx context.Context, in io.Reader, out io.Writer) error {
	return d.acp.Serve(ctx, in, out)
}

// agentGate marks the context of prompts that come over a link.
type agentGate struct{ admission }

// Prompt submits a prompt. One that comes over a link has an id: while the server drains,
// its client asks the next owner for the answer.
func (g agentGate) Prompt(ctx context.Context, p ledger.AgentPrompt) (ledger.Prompted, error) {
	if p.ID != "" {
		ctx = context.WithValue(ctx, linkedKey{}, true)
	}
	return g.Ledger.Prompt(ctx, p)
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
