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

// Progress reports how far the read side has applied the ledger.
type Progress interface {
	// Wait blocks until the events up to position seq, inclusive, are readable.
	Wait(ctx context.Context, seq uint64) error
	// Applied returns the position of the last readable event.
	Applied() uint64
	// NextCommit returns a channel that is closed at the next commit.
	NextCommit() <-chan struct{}
	// Watch signals changed after each commit that concerns an execution, until stop is
	// called.
	Watch(tenant, execution string) (changed <-chan struct{}, stop func())
	// WatchEnd signals ended when the end of an execution is readable, until stop is called.
	WatchEnd(tenant, execution string) (ended <-chan struct{}, stop func())
}

// Executions reads executions. It returns events.ErrNotFound for an unknown one.
type Executions interface {
	Execution(ctx context.Context, tenant, id string) (projections.ExecutionDetail, error)
	// ExecutionPreview is Execution with the beginnings of large texts. ExecutionText
	// returns one complete text.
	ExecutionPreview(ctx context.Context, tenant, id string) (projections.ExecutionDetail, error)
	ExecutionText(ctx context.Context, tenant, id, name string) (string, error)
	Executions(ctx context.Context, tenant string, f projections.ExecutionFilter) (projections.ExecutionPage, error)
	Output(ctx context.Context, tenant, id string, q projections.OutputQuery) (projections.OutputPage, error)
	Artifacts(ctx context.Context, tenant, id string) ([]projections.Artifact, error)
	// Artifact returns the last artifact with a name, or the one with a number if it is
	// not 0. ArtifactBytes reads its bytes.
	Artifact(ctx context.Context, tenant, id, name string, number int) (projections.Artifact, error)
	ArtifactBytes(ctx context.Context, tenant string, f projections.Artifact) ([]byte, error)
	// Lines returns up to limit complete lines of output. from is the 1-based number of the
	// first line.
	Lines(ctx context.Context, tenant, id string, from int64, limit int) ([]projections.OutputLine, events.Status, error)
}

// Heaps reads heaps and their tags.
type Heaps interface {
	Heap(ctx context.Context, tenant, hash string) (projections.Heap, error)
	HeapTags(ctx context.Context, tenant, hash string) (map[string]string, error)
	HeapsByTags(ctx context.Context, tenant string, q projections.TagQuery) (projections.HeapPage, error)
}

// Sessions reads the session logs of named sessions.
type Sessions interface {
	SessionQueries
	SessionNames(ctx context.Context, tenant string, limit int, after string) (names []string, next string, err error)
	Entries(ctx context.Context, tenant, session string) ([]projections.Entry, error)
	NextEntry(ctx context.Context, tenant, session string) (int64, error)
}
