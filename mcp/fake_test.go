package mcp_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"testing"

	"daybook/events"
	"daybook/internal/resources/budget"
	"daybook/ledger"
	"daybook/mcp"
	"daybook/projections"
)

// fakeStack is a stack made of functions, for conditions that a real one cannot produce
// on request: failures, lag, runs of minutes. A nil function finds nothing.
type fakeStack struct {
	submit    func(context.Context, ledger.Submission) (ledger.Receipt, error)
	cancel    func(ctx context.Context, id string) (uint64, error)
	execution func(id string) (projections.ExecutionDetail, error)
	output    func(id string, q projections.OutputQuery) (projections.OutputPage, error)
	lines     func(id string, from int64, limit int) ([]projections.OutputLine, events.Status, error)
	wait      func(context.Context, uint64) error
	changed   func() <-chan struct{}
	applied   func() uint64
	watched   chan struct{}
	count     func() int64
	entries   func() []projections.Entry
}

func (f *fakeStack) Submit(ctx context.Context, s ledger.Submission) (ledger.Receipt, error) {
	if f.submit == nil {
		return ledger.Receipt{}, &ledger.Error{Code: ledger.CodeUnavailable, Message: "no server"}
	}
	return f.submit(ctx, s)
}

func (f *fakeStack) Cancel(ctx context.Context, _, id string, _ events.Actor) (uint64, error) {
	if f.cancel == nil {
		return 0, &ledger.Error{Code: ledger.CodeNotFound, Message: "Execution not found"}
	}
	return f.cancel(ctx, id)
}

func (f *fakeStack) SetTags(context.Context, string, string, map[string]string, events.Actor) (uint64, error) {
	return 1, nil
}

func (f *fakeStack) DeleteTags(context.Context, string, string, []string, events.Actor) (uint64, error) {
	return 1, nil
}

func (f *fakeStack) OpenSession(_ context.Context, o ledger.Opening) (ledger.OpenResult, error) {
	if err := ledger.CheckIntent(o.Intent); err != nil {
		return ledger.OpenResult{}, err
	}
	return ledger.OpenResult{SessionID: events.Hash([]byte(o.Intent))}, nil
}

func (f *fakeStack) ExpandSession(_ context.Context, t ledger.Expansion) (ledger.ExpansionResult, error) {
	return ledger.ExpansionResult{Added: t.Entries, All: t.Entries, Revision: 1, NewSymbolSpace: true}, nil
}

func (f *fakeStack) AssignRef(context.Context, string, string, string) (string, uint64, error) {
	return "s0", 0, nil
}

func (f *fakeStack) ResolveRef(_ context.Context, _, _, ref string) (string, error) {
	return "", &ledger.Error{Code: ledger.CodeNotFound, Message: "there is no session"}
}

func (f *fakeStack) Wait(ctx context.Context, seq uint64) error {
	if f.wait == nil {
		return nil
	}
	return f.wait(ctx, seq)
}

// Applied is beyond every event, unless a test says otherwise.
func (f *fakeStack) Applied() uint64 {
	if f.applied == nil {
		return math.MaxUint64
	}
	return f.applied()
}

func (f *fakeStack) NextCommit() <-chan struct{} {
	if f.changed == nil {
		return nil
	}
	return f.changed()
}

func (f *fakeStack) Watch(string, string) (<-chan struct{}, func()) {
	if f.watched != nil {
		return f.watched, func() {}
	}
	return f.NextCommit(), func() {}
}

func (f *fakeStack) WatchEnd(tenant, execution string) (<-chan struct{}, func()) {
	return f.Watch(tenant, execution)
}

func (f *fakeStack) Execution(_ context.Context, _, id string) (projections.ExecutionDetail, error) {
	if f.execution == nil {
		return projections.ExecutionDetail{}, events.ErrNotFound
	}
	return f.execution(id)
}

// ExecutionPreview returns the first byte of a result for which Execution has no memory.
func (f *fakeStack) ExecutionPreview(_ context.Context, _, id string) (projections.ExecutionDetail, error) {
	d, err := f.execution(id)
	if _, exhausted := errors.AsType[*budget.ExhaustedError](err); !exhausted {
		return d, err
	}
	d.CutTexts = map[string]int64{projections.TextResult: int64(len(*d.Result))}
	d.Result = new((*d.Result)[:1])
	return d, nil
}

func (f *fakeStack) ExecutionText(_ context.Context, _, id, name string) (string, error) {
	if f.execution == nil {
		return "", events.ErrNotFound
	}
	d, err := f.execution(id)
	text := map[string]*string{projections.TextResult: d.Result, projections.TextError: d.Error, projections.TextCode: &d.Code}[name]
	if _, exhausted := errors.AsType[*budget.ExhaustedError](err); err != nil && !exhausted {
		return "", err
	}
	if text == nil {
		return "", events.ErrNotFound
	}
	return *text, nil
}

func (f *fakeStack) Executions(context.Context, string, projections.ExecutionFilter) (projections.ExecutionPage, error) {
	return projections.ExecutionPage{}, nil
}

func (f *fakeStack) Artifacts(context.Context, string, string) ([]projections.Artifact, error) {
	return nil, events.ErrNotFound
}

func (f *fakeStack) Artifact(context.Context, string, string, string, int) (projections.Artifact, error) {
	return projections.Artifact{}, events.ErrNotFound
}

func (f *fakeStack) ArtifactBytes(context.Context, string, projections.Artifact) ([]byte, error) {
	return nil, events.ErrNotFound
}

func (f *fakeStack) Output(_ context.Context, _, id string, q projections.OutputQuery) (projections.OutputPage, error) {
	if f.output == nil {
		return projections.OutputPage{}, events.ErrNotFound
	}
	return f.output(id, q)
}

func (f *fakeStack) Lines(_ context.Context, _, id string, from int64, limit int) ([]projections.OutputLine, events.Status, error) {
	if f.lines == nil {
		return nil, "", events.ErrNotFound
	}
	return f.lines(id, from, limit)
}

func (f *fakeStack) Heap(context.Context, string, string) (projections.Heap, error) {
	return projections.Heap{}, events.ErrNotFound
}

func (f *fakeStack) HeapTags(context.Context, string, string) (map[string]string, error) {
	return nil, nil
}

func (f *fakeStack) HeapsByTags(context.Context, string, projections.TagQuery) (projections.HeapPage, error) {
	return projections.HeapPage{}, nil
}

func (f *fakeStack) ResolveSession(_ context.Context, _, text string) (projections.Session, error) {
	return projections.Session{}, events.ErrNotFound
}

func (f *fakeStack) ResetSession(context.Context, ledger.Reset) (ledger.ResetResult, error) {
	return ledger.ResetResult{}, &ledger.Error{Code: ledger.CodeNotFound, Message: "no session"}
}

func (f *fakeStack) SessionNames(context.Context, string, int, string) ([]string, string, error) {
	return nil, "", nil
}

func (f *fakeStack) Entries(context.Context, string, string) ([]projections.Entry, error) {
	if f.entries != nil {
		return f.entries(), nil
	}
	return nil, nil
}

func (f *fakeStack) NextEntry(ctx context.Context, tenant, session string) (int64, error) {
	if f.count != nil {
		return f.count(), nil
	}
	list, err := f.Entries(ctx, tenant, session)
	return int64(len(list)), err
}

// serve returns a server over the stack, which is closed when the test ends.
func (f *fakeStack) serve(t testing.TB, opts mcp.Options) *mcp.Server {
	t.Helper()
	opts.Commands, opts.Queries = f, f
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	s := mcp.New(opts)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close the server: %v", err)
		}
	})
	return s
}
