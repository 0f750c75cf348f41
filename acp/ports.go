package acp

import (
	"context"

	"daybook/events"
	"daybook/internal/contextstore"
	"daybook/internal/tools/toolserver"
	"daybook/ledger"
	"daybook/projections"
)

// Commands is the write side. *ledger.Ledger implements it.
type Commands interface {
	Sessions
	Runs
	SetTags(ctx context.Context, tenant, heap string, tags map[string]string, actor events.Actor) (seq uint64, err error)
	DecidePermission(ctx context.Context, tenant string, d events.AgentPermissionDecided) (seq uint64, err error)
}

// Sessions is the part of Commands that changes sessions.
type Sessions interface {
	OpenAgentSession(ctx context.Context, o ledger.AgentOpening) (id string, seq uint64, err error)
	AttachAgentSession(ctx context.Context, tenant string, d events.AgentSessionAttached) (seq uint64, err error)
	ConfigureAgentSession(ctx context.Context, tenant, session string, c events.AgentConfig, actor events.Actor) (seq uint64, err error)
	CloseAgentSession(ctx context.Context, tenant, session string, actor events.Actor) (seq uint64, err error)
	DeleteAgentSession(ctx context.Context, tenant, session string, actor events.Actor) (seq uint64, err error)
	SessionHeap(ctx context.Context, tenant, session string) (heap string, err error)
	SetSessionHeap(ctx context.Context, tenant, session, heap string, actor events.Actor) (seq uint64, err error)
}

// Runs is the part of Commands that starts and ends the runs of prompts.
type Runs interface {
	Prompt(ctx context.Context, p ledger.AgentPrompt) (ledger.PromptReceipt, error)
	AnswerCommand(ctx context.Context, tenant, session, prompt, text string, cleared bool) (seq uint64, err error)
	Cancel(ctx context.Context, tenant, execution string, actor events.Actor) (seq uint64, err error)
	InterruptSession(ctx context.Context, tenant, session string) (seq uint64, err error)
}

// Queries is the read side. *projections.Store implements it. Its methods return
// events.ErrNotFound for an object that does not exist.
type Queries interface {
	// Wait waits until the queries cover the events up to position seq.
	Wait(ctx context.Context, seq uint64) error
	// Watch signals after each commit that changes an execution. The caller MUST call
	// stop.
	Watch(tenant, execution string) (changed <-chan struct{}, stop func())
	Trace(ctx context.Context, tenant, execution string, after projections.TraceMark) (projections.RunTrace, error)
	Artifacts(ctx context.Context, tenant, id string) ([]projections.Artifact, error)
	ArtifactBytes(ctx context.Context, tenant string, f projections.Artifact) ([]byte, error)
	AgentSession(ctx context.Context, tenant, id string) (projections.AgentSession, error)
	AgentSessions(ctx context.Context, tenant string, f projections.AgentSessionFilter) (projections.AgentSessionPage, error)
	AgentPrompts(ctx context.Context, tenant, id string) ([]projections.AgentPrompt, error)
	Heap(ctx context.Context, tenant, hash string) (projections.Heap, error)
}

// Contexts holds the conversation contexts. *contextstore.Store implements it.
type Contexts interface {
	// Ref returns the reference to conversation context k that the request of a run
	// records.
	Ref(ctx context.Context, k contextstore.Key) (events.ContextRef, error)
}

// Toolbox is the set of tool servers of one session. Implementations MUST be safe for
// concurrent use. *toolserver.Set implements it.
type Toolbox interface {
	// Tools returns the tools that can be called now. The tools of a server are
	// consecutive and sorted by name.
	Tools(ctx context.Context, tenant string) []toolserver.Tool
	// Call calls a tool with arguments that are a JSON object. ctx is done when the
	// run ends.
	Call(ctx context.Context, tenant, server, tool string, arguments []byte) toolserver.Result
	// Status returns the state of each server in words, without secrets.
	Status() map[string]string
	// Problems waits until no server is being connected or ctx is done. It returns the
	// servers that cannot be called, each with the reason, without secrets.
	Problems(ctx context.Context, tenant string) map[string]string
	// Close closes all connections and ends the processes of stdio servers.
	Close() error
}
