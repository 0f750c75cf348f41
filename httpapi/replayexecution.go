package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"daybook/events"
)

// Replays executes recorded runs again.
type Replays interface {
	// Replay executes an ended run again with its recorded inputs, compares it with the
	// record, and records the verdict. The errors are ledger.CodeNotFound for an unknown
	// execution and ledger.CodeConflict for one that has not ended.
	Replay(ctx context.Context, tenant, execution string, actor events.Actor) (Replayed, error)
}

// Replayed is the verdict of a replay.
type Replayed struct {
	ExecutionID string               `json:"execution_id" doc:"Id of the execution that was replayed."`
	Verdict     events.ReplayVerdict `json:"verdict" enum:"identical,different,not_replayed" doc:"identical: everything that was compared is equal. different: difference has the first difference. not_replayed: the execution could not be executed again; reason and message say why."`
	Stopped     bool                 `json:"stopped" doc:"True if the recorded run was stopped, for example by its time limit: it is compared up to its last recorded line and call."`
	Compared    []events.ReplayPart  `json:"compared,omitempty" doc:"What was compared, in order. javascript and heap are compared only if the engine is the recorded one."`
	Difference  *ReplayDifference    `json:"difference,omitempty" doc:"The first difference."`
	Reason      string               `json:"reason,omitempty" doc:"Machine-readable cause of not_replayed, for example heap_collected."`
	Message     string               `json:"message,omitempty" doc:"Text of the cause."`
	EngineID    string               `json:"engine_id,omitempty" doc:"Engine of the replay."`
	// RecordedEngineID is empty if no script was started.
	RecordedEngineID string `json:"recorded_engine_id,omitempty" doc:"Engine of the recorded run."`
	Heap             string `json:"heap,omitempty" doc:"Hash of the heap that the replay left. It is not stored."`
	WallMillis       int64  `json:"wall_ms" doc:"Duration of the replay in milliseconds."`
	// Sequence is the position of the event that records the verdict.
	Sequence uint64 `json:"-"`
}

// ReplayDifference is a difference between a recorded run and its replay.
type ReplayDifference struct {
	Part     events.ReplayPart `json:"part" enum:"output,calls,status,javascript,result,error,heap" doc:"What differs."`
	Line     int64             `json:"line,omitempty" doc:"Number of the line of output, from 1."`
	Call     int               `json:"call,omitempty" doc:"Number of the host call, from 1."`
	Recorded string            `json:"recorded" doc:"The recorded value, or the part of it around the first difference."`
	Replayed string            `json:"replayed" doc:"The value of the replay, or the part of it around the first difference."`
}

func (a *api) replayExecutionRoutes(r *router) {
	register(r, huma.Operation{
		OperationID: "replay-execution", Method: http.MethodPost, Path: "/api/executions/{id}/replay", Tags: []string{tagExecutions},
		Summary: "Replay an execution",
		Description: "Executes an ended run again from its recorded source, heap, seed and start time, with its recorded host calls, and compares output, calls, status, result, error and heap with the record. Calls no tool, and stores neither output nor heap. " +
			"Answers with the verdict, which is recorded as an event. Timers take no real time, so a replay is often faster than the run.",
	}, []int{http.StatusNotFound, http.StatusConflict, http.StatusTooManyRequests}, a.replayExecution)
}

type replayExecutionInput struct{ OneExecution }

type replayExecutionAnswer struct {
	Written
	Body Replayed
}

func (a *api) replayExecution(ctx context.Context, in *replayExecutionInput) (*replayExecutionAnswer, error) {
	if a.replays == nil {
		return nil, absent("this server runs no scripts, and cannot replay executions")
	}
	r := requestOf(ctx)
	done, err := a.replays.Replay(ctx, r.tenant, in.ID, r.actor)
	if err != nil {
		return nil, err
	}
	return &replayExecutionAnswer{Written: a.noteWrite(done.Sequence), Body: done}, nil
}
