package mcp

import (
	"context"

	"daybook/events"
	"daybook/ledger"
	"daybook/projections"
)

// Commands is the write side. *ledger.Ledger implements it.
type Commands interface {
	LogicalCommands
	Submit(ctx context.Context, s ledger.Submission) (ledger.Receipt, error)
	Cancel(ctx context.Context, tenant, execution string, actor events.Actor) (seq uint64, err error)
	SetTags(ctx context.Context, tenant, heap string, tags map[string]string, actor events.Actor) (seq uint64, err error)
	DeleteTags(ctx context.Context, tenant, heap string, keys []string, actor events.Actor) (seq uint64, err error)
}

// Queries is the read side. *projections.Store implements it.
type Queries interface {
	Progress
	Executions
	Heaps
	Sessions
}

// Progress tells how far the read side has come.
type Progress interface {
	// Wait returns once everything up to seq can be read.
	Wait(ctx context.Context, seq uint64) error
	// NextCommit is closed when there is next something new to read.
	NextCommit() <-chan struct{}
	// Watch signals after each commit about an execution until stop is called.
	Watch(tenant, execution string) (changed <-chan struct{}, stop func())
	// WatchEnd signals once the end of an execution can be read until stop is
	// called.
	WatchEnd(tenant, execution string) (ended <-chan struct{}, stop func())
}

// Executions answers questions about runs. Unknown ones are
// events.ErrNotFound.
type Executions interface {
	Execution(ctx context.Context, tenant, id string) (projections.ExecutionDetail, error)
	// ExecutionPreview is Execution with the beginning of large texts only, and
	// ExecutionText returns one of them whole.
	ExecutionPreview(ctx context.Context, tenant, id string) (projections.ExecutionDetail, error)
	ExecutionText(ctx context.Context, tenant, id, name string) (string, error)
	Executions(ctx context.Context, tenant string, f projections.ExecutionFilter) (projections.ExecutionPage, error)
	Output(ctx context.Context, tenant, id string, q projections.OutputQuery) (projections.OutputPage, error)
	// Lines returns up to limit whole lines of output from number from on.
	Lines(ctx context.Context, tenant, id string, from int64, limit int) ([]projections.OutputLine, events.Status, error)
}

// Heaps answers questions about heaps.
type Heaps interface {
	Heap(ctx context.Context, tenant, hash string) (projections.Heap, error)
	HeapTags(ctx context.Context, tenant, hash string) (map[string]string, error)
	HeapsByTags(ctx context.Context, tenant string, q projections.TagQuery) (projections.HeapPage, error)
}

// Sessions answers questions about the logs of named sessions.
type Sessions interface {
	SessionQueries
	Sessions(ctx context.Context, tenant string) ([]string, error)
	Entries(ctx context.Context, tenant, session string) ([]projections.Entry, error)
	NextEntry(ctx context.Context, tenant, session string) (int64, error)
}
