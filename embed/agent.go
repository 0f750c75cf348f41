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

// newAgent returns the server of the Agent Client Protocol.
func (d *Daybook) newAgent() *acp.Server {
	return acp.New(acp.Options{
		Commands:            agentGate{admission{d.ledger, d}},
		Queries:             d.projections,
		Contexts:            d.agentContexts(),
		Connect:             d.connectTools,
		Count:               func() error { return countAgentRequest(d.quotas) },
		Stateless:           d.opts.Runs.Stateless,
		HeapMemoryMB:        d.opts.Runs.HeapMB,
		HeapMemoryCeilingMB: d.opts.Runs.HeapCeilingMB,
		TimeoutSecs:         d.opts.Runs.TimeoutSecs,
		Version:             d.opts.Version,
		Logger:              d.opts.Logger,
	})
}

func countAgentRequest(q *access.Quotas) error {
	err := q.CountRequest(access.Identity{Tenant: events.DefaultTenant})
	if over, limited := errors.AsType[*access.LimitError](err); limited {
		return overLimit(over)
	}
	return err
}

// ServeACP serves one client of the Agent Client Protocol over a pair of streams. It
// writes only protocol messages to out. It blocks until in ends, ctx is done or the
// Daybook is closed.
func (d *Daybook) ServeACP(ctx context.Context, in io.Reader, out io.Writer) error {
	return d.acp.Serve(ctx, in, out)
}

// agentGate is the admission of prompts. It marks the context of prompts that come over
// a link.
type agentGate struct{ admission }

// Prompt submits a prompt. A prompt over a link has an id: while the server drains, its
// client asks the next owner for the answer.
func (g agentGate) Prompt(ctx context.Context, p ledger.AgentPrompt) (ledger.PromptReceipt, error) {
	if p.ID != "" {
		ctx = context.WithValue(ctx, linkedKey{}, true)
	}
	return g.Ledger.Prompt(ctx, p)
}

// toolConfig converts the configuration of a client's tool server.
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

// toolbox adapts a set of tool servers to package acp.
type toolbox struct{ *toolserver.Set }

// Call calls a tool.
func (b toolbox) Call(ctx context.Context, server, tool string, arguments []byte) acp.CallResult {
	got := b.Set.Call(ctx, events.DefaultTenant, server, tool, arguments)
	return acp.CallResult{Outcome: events.HostOutcome(got.Outcome), Text: got.Text, Release: got.Release}
}

// Problems returns the reasons of tool servers that cannot be called.
func (b toolbox) Problems(ctx context.Context) map[string]string {
	return b.Set.Problems(ctx, events.DefaultTenant)
}

// Tools lists the callable tools.
func (b toolbox) Tools(ctx context.Context) []acp.Tool {
	tools := b.Set.Tools(ctx, events.DefaultTenant)
	list := make([]acp.Tool, len(tools))
	for i, t := range tools {
		list[i] = acp.Tool{Server: t.Server, Name: t.Name, Description: t.Description, ReadOnly: t.ReadOnly, Destructive: t.Destructive}
	}
	return list
}
