package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"daybook/internal/globals"
	"daybook/internal/resources/budget"
	"daybook/internal/resources/reads"
	"daybook/projections"
)

// HeapGlobals lists the globals of heaps.
type HeapGlobals interface {
	// Globals lists the globals that scripts added to a heap, without the first skip of
	// them. It runs no code of the scripts and records nothing. Errors are those of a read
	// of the heap, ledger.CodeConflict for a heap of another engine, and ledger.CodeTooLarge
	// for one that no worker can hold.
	Globals(ctx context.Context, tenant, heap string, skip int) (globals.List, error)
}

// globalsBytes is the memory that a list of globals takes in an answer, in bytes.
const globalsBytes = 4 << 20

func (a *api) globalsRoutes(r *router) {
	register(r, markHeavy(huma.Operation{
		OperationID: "list-heap-globals", Method: http.MethodGet, Path: "/api/heaps/{heap}/globals", Tags: []string{tagHeaps},
		Summary: "List the globals of a heap",
		Description: "The globals that scripts added: top-level let, const, class, function and var, and properties of globalThis, in the order of their names, at most 1,000. To get the next ones, set skip to the number of those before. " +
			"A worker restores the heap and runs none of its code: no getter, proxy, timer or custom inspection. Nothing is recorded or stored. " +
			"A heap can be read only by workers of the engine that made it.",
	}), []int{http.StatusBadRequest, http.StatusNotFound, http.StatusConflict, http.StatusGone, http.StatusRequestEntityTooLarge, http.StatusTooManyRequests}, a.heapGlobals)
}

type heapGlobalsInput struct {
	Reading
	OneHeap
	Skip optional[int] `query:"skip" doc:"Number of globals to leave out at the beginning, for the next page: 0 to 1,000,000,000. Default: 0."`
}

type heapGlobalsAnswer struct{ Body globals.List }

func (a *api) heapGlobals(ctx context.Context, in *heapGlobalsInput) (*heapGlobalsAnswer, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	if f := checkRange("skip", in.Skip.Value, 0, globals.MaxSkip); f != nil {
		return nil, f
	}
	if a.globals == nil {
		return nil, absent("this server runs no scripts, and cannot list the globals of heaps")
	}
	if err := a.waitForPosition(ctx, in.Reading); err != nil {
		return nil, err
	}
	tenant := requestOf(ctx).tenant
	if _, err := readCurrent(ctx, a, func() (projections.Heap, error) { return a.q.Heap(ctx, tenant, in.Heap) }); err != nil {
		return nil, err
	}
	if err := budget.TakeOnce(ctx, globalsBytes); err != nil {
		return nil, err
	}
	reads.From(ctx).Yield() // a worker reads the heap, and the wait for it is limited elsewhere
	list, err := a.globals.Globals(ctx, tenant, in.Heap, in.Skip.Value)
	if err != nil {
		return nil, err
	}
	return &heapGlobalsAnswer{Body: list}, continueReading(ctx)
}
