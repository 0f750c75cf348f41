package httpapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"daybook/events"
	"daybook/ledger"
	"daybook/projections"
)

// HeapMigrations migrates heaps of other engines.
type HeapMigrations interface {
	// MigrateHeap replays the executions that led to a heap, compares them with the record,
	// stores the heap that the replays left, and records the verdict. Errors are
	// ledger.CodeNotFound and ledger.CodeGone for a heap that does not exist.
	MigrateHeap(ctx context.Context, tenant, heap string, actor events.Actor) (MigratedHeap, error)
}

// MigratedHeap is the verdict about a heap of another engine.
type MigratedHeap struct {
	Heap        string                  `json:"heap" doc:"Key of the heap that was to be migrated. It stays as it is."`
	Verdict     events.MigrationVerdict `json:"verdict" enum:"migrated,unchanged,different,not_migrated" doc:"migrated: every replay agreed with its record, and new_heap is stored. unchanged: the engine of the server made the heap. different: a replay differs; difference has the first difference. not_migrated: an execution that led to the heap is unknown or cannot be replayed; reason and message say why."`
	NewHeap     string                  `json:"new_heap,omitempty" doc:"Key of the heap that runs restore in place of heap."`
	EngineID    string                  `json:"engine_id,omitempty" doc:"Engine that made heap."`
	NewEngineID string                  `json:"new_engine_id" doc:"Engine of the server, and of new_heap."`
	From        string                  `json:"from,omitempty" doc:"Heap from which the first execution was replayed. Absent for a fresh isolate."`
	Replayed    int                     `json:"replayed" doc:"Number of executions that were replayed with an identical result."`
	Recorded    bool                    `json:"recorded" doc:"Whether an earlier migration made new_heap."`
	ExecutionID string                  `json:"execution_id,omitempty" doc:"Execution whose replay differs, or that cannot be replayed."`
	Difference  *ReplayDifference       `json:"difference,omitempty" doc:"The first difference."`
	Reason      string                  `json:"reason,omitempty" doc:"Machine-readable cause of not_migrated, for example lineage_unknown."`
	Message     string                  `json:"message,omitempty" doc:"Text of the cause."`
	TagsMoved   int                     `json:"tags_moved,omitempty" doc:"Number of tags that the request moved from heap to new_heap. Only with retag."`
	WallMillis  int64                   `json:"wall_ms" doc:"Duration of the migration in milliseconds."`
	// Sequence is the position of the last event about the migration, 0 for none.
	Sequence uint64 `json:"-"`
}

func (a *api) migrateHeapRoutes(r *router) {
	register(r, huma.Operation{
		OperationID: "migrate-heap", Method: http.MethodPost, Path: "/api/heaps/{heap}/migrate", Tags: []string{tagHeaps},
		Summary: "Migrate a heap to the engine of the server",
		Description: "Replays the executions that led to a heap of another engine, from the nearest heap that this server's engine accepts, with their recorded inputs and host calls, and compares output, calls, status, result and error with the record. " +
			"If all agree, stores the heap that the replays left. Answers with the verdict, which is recorded as an event. The tags of the heap stay where they are, unless retag is set. " +
			"Runs and sessions that need the heap migrate it without this request. An interrupted request continues where it was, if it is repeated.",
	}, []int{http.StatusBadRequest, http.StatusNotFound, http.StatusGone, http.StatusTooManyRequests}, a.migrateHeap)
}

type migrateHeapAnswer struct {
	Written
	Body MigratedHeap
}

type migrateHeapInput struct {
	Reading
	OneHeap
	Retag bool `query:"retag" doc:"Move the tags of the heap to new_heap, if the heap is migrated or was migrated before. Of a tag that both have, the value that was set last counts. No edit that another request makes meanwhile is lost."`
}

func (a *api) migrateHeap(ctx context.Context, in *migrateHeapInput) (*migrateHeapAnswer, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	if a.migrations == nil {
		return nil, absent("this server runs no scripts that keep heaps, and cannot migrate heaps")
	}
	if err := a.waitForPosition(ctx, in.Reading); err != nil {
		return nil, err
	}
	r := requestOf(ctx)
	if _, err := readCurrent(ctx, a, func() (projections.Heap, error) { return a.q.Heap(ctx, r.tenant, in.Heap) }); err != nil {
		return nil, err
	}
	done, err := a.migrations.MigrateHeap(ctx, r.tenant, in.Heap, r.actor)
	if err != nil {
		return nil, err
	}
	if in.Retag && done.Verdict == events.MigrationDone && done.NewHeap != in.Heap {
		moved, err := a.cmd.MoveTags(ctx, r.tenant, in.Heap, done.NewHeap, r.actor)
		if why, ok := errors.AsType[*ledger.Error](err); ok {
			with := *why
			with.Message = "heap " + in.Heap + " is migrated to " + done.NewHeap + ", but its tags are not moved: " + why.Message
			return nil, &with
		}
		if err != nil {
			return nil, err
		}
		done.TagsMoved, done.Sequence = moved.Tags, max(done.Sequence, moved.Seq)
	}
	return &migrateHeapAnswer{Written: a.noteWrite(done.Sequence), Body: done}, nil
}
