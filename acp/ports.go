package acp

import (
	"context"

	"daybook/events"
	"daybook/internal/contextstore"
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

// Sessions changes sessions.
type Sessions interface {
	OpenAgentSession(ctx context.Context, o ledger.AgentOpening) (id string, seq uint64, err error)
	AttachAgentSession(ctx context.Context, tenant string, d events.AgentSessionAttached) (seq uint64, err error)
	ConfigureAgentSession(ctx context.Context, tenant, session string, c events.AgentConfig, actor events.Actor) (seq uint64, err error)
	CloseAgentSession(ctx context.Context, tenant, session string, actor events.Actor) (seq uint64, err error)
	DeleteAgentSession(ctx context.Context, tenant, session string, actor events.Actor) (seq uint64, err error)
	SessionHeap(ctx context.Context, tenant, session string) (heap string, err error)
	SetSessionHeap(ctx context.Context, tenant, session, heap string, actor events.Actor) (seq uint64, err error)
}

// Runs begins and ends what prompts ask for.
type Runs interface {
	Prompt(ctx context.Context, p ledger.AgentPrompt) (ledger.PromptReceipt, error)
	AnswerCommand(ctx context.Context, tenant, session, prompt, text string, cleared bool) (seq uint64, err error)
	Cancel(ctx context.Context, tenant, execution string, actor events.Actor) (seq uint64, err error)
	InterruptSession(ctx context.Context, tenant, session string) (seq uint64, err error)
}

// Queries is the read side. *projections.Store implements it. What is not there
// is events.ErrNotFound.
type Queries interface {
	// Wait returns once everything up to seq can be read.
	Wait(ctx context.Context, seq uint64) error
	// Watch signals after each commit about an execution until stop is called.
	Watch(tenant, execution string) (changed <-chan struct{}, stop func())
	Trace(ctx context.Context, tenant, execution string, after projections.TraceMark) (projections.RunTrace, error)
	AgentSession(ctx context.Context, tenant, id string) (projections.AgentSession, error)
	AgentSessions(ctx context.Context, tenant string, f projections.AgentSessionFilter) (projections.AgentSessionPage, error)
	AgentPrompts(ctx context.Context, tenant, id string) ([]projections.AgentPrompt, error)
	Heap(ctx context.Context, tenant, hash string) (projections.Heap, error)
}

// Contexts keeps what happened in each conversation. *contextstore.Store
// implements it.
type Contexts interface {
	// Ref names a context for a run that is asked for in it.
	Ref(ctx context.Context, k contextstore.Key) (events.ContextRef, error)
}

// ToolServer is an MCP server as a client names it. Env and Headers hold secrets.
type ToolServer struct {
	// Name is what code calls the server: 1 to 64 letters, digits, "_", "-" and ".".
	Name string
	// Transport is "stdio", "http" or "sse".
	Transport string
	// Command, Args, Env and Dir start a server of transport stdio.
	Command string
	Args    []string
	Env     map[string]string
	Dir     string
	// URL and Headers reach one of the others.
	URL     string
	Headers map[string]string
	// Roots are absolute paths of directories: the roots that the server is told,
	// in this order.
	Roots []string
}

// Tool is one that code may call.
type Tool struct {
	Server, Name, Description string
	// ReadOnly is the server's word that the tool changes nothing, Destructive that
	// it may destroy something. A server that says neither is taken to be the
	// latter.
	ReadOnly, Destructive bool
}

// Toolbox is the tool servers of one session. It is safe for concurrent use.
type Toolbox interface {
	// Tools lists what can be called now, by server and name.
	Tools(ctx context.Context) []Tool
	// Call calls a tool with arguments that are a JSON object. ctx ends with the run.
	Call(ctx context.Context, server, tool string, arguments []byte) CallResult
	// Status tells how each server is doing, without secrets.
	Status() map[string]string
	// Problems waits for servers that are being connected, at most until ctx is done,
	// and reports why each one cannot be called that cannot, without secrets.
	Problems(ctx context.Context) map[string]string
	// Close ends all connections and the processes behind them.
	Close() error
}
