package embed

import (
	"context"
	"errors"
	"io"

	"daybook/acp"
	"daybook/events"
	"daybook/internal/admission"
	"daybook/internal/tools/toolserver"
	"daybook/internal/web/access"
	"daybook/ledger"
)

// newAgent returns the server of the Agent Client Protocol.
func (d *Daybook) newAgent() *acp.Server {
	return acp.New(acp.Options{
		Commands:            agentGate{d.commands()},
		Queries:             d.projections,
		Contexts:            onlyIf[acp.Contexts](d.contexts != nil, d.contexts),
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
		return admission.OverLimit(over)
	}
	return err
}

// ServeACP serves one client of the Agent Client Protocol over a pair of streams. It
// writes only protocol messages to out. It blocks until in ends, ctx is done or the
// Daybook is closed.
func (d *Daybook) ServeACP(ctx context.Context, in io.Reader, out io.Writer) error {
	return d.acp.Serve(ctx, in, out)
}

// agentGate is the admission of prompts. It marks the context of prompts whose client
// asks the next owner for the answer if this server drains.
type agentGate struct{ admission.Commands }

// Prompt submits a prompt. A prompt with an id came over a link, so its client asks the next
// owner for the answer.
func (g agentGate) Prompt(ctx context.Context, p ledger.AgentPrompt) (ledger.PromptReceipt, error) {
	if p.ID != "" {
		ctx = admission.WithNextOwner(ctx)
	}
	return g.Ledger.Prompt(ctx, p)
}

// connectTools starts to connect to the tool servers of a client.
func (d *Daybook) connectTools(servers []toolserver.Config) (acp.Toolbox, error) {
	set, err := toolserver.Connect(servers, toolserver.Options{Version: d.opts.Version, Logger: d.opts.Logger, Memory: toolMemory{d.budget}})
	if err != nil {
		return nil, err // not a nil *Set in an interface
	}
	return set, nil
}
