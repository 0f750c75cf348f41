package httpapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"daybook/events"
	"daybook/internal/resources/budget"
	"daybook/ledger"
)

// Replays executes recorded runs again.
type Replays interface {
	// Replay executes an ended run again with its recorded inputs, compares it with the
	// record, and records the verdict. With timeline the answer has the steps of the replay.
	// The errors are ledger.CodeNotFound for an unknown execution and ledger.CodeConflict for
	// one that has not ended.
	Replay(ctx context.Context, tenant, execution string, timeline bool, actor events.Actor) (Replayed, error)
	// WhatIf executes another script with the recorded inputs of an ended run, and compares
	// the two. It records no event and stores nothing. Errors are those of Replay. The script
	// is one that ledger.CheckScript accepts.
	WhatIf(ctx context.Context, tenant, execution string, s ReplacementScript, actor events.Actor) (WhatIf, error)
}

// Replayed is the verdict of a replay.
type Replayed struct {
	ExecutionID string               `json:"execution_id" doc:"Id of the execution that was replayed."`
	Verdict     events.ReplayVerdict `json:"verdict" enum:"identical,different,not_replayed" doc:"identical: everything that was compared is equal. different: difference has the first difference. not_replayed: the execution could not be executed again; reason and message say why."`
	Stopped     bool                 `json:"stopped" doc:"True if the recorded run was stopped, for example by its time limit: it is compared up to its last recorded line and call."`
	Compared    []events.ReplayPart  `json:"compared,omitempty" doc:"What was compared, in order. javascript and heap are compared only if the engine is the recorded one, and if this build of Daybook recorded the run or the JavaScript is the recorded one."`
	Difference  *ReplayDifference    `json:"difference,omitempty" doc:"The first difference."`
	// Nondeterministic is set only with Difference.
	Nondeterministic []events.Nondeterminism `json:"nondeterministic,omitempty" doc:"Why the two may differ although nothing is wrong, if there is a difference: weak_ref, the recorded run or the replay read a WeakRef whose target was collected; finalizer, a callback of a FinalizationRegistry ran in one of them."`
	// OtherBuild is set only with Difference.
	OtherBuild bool   `json:"other_build,omitempty" doc:"True, if there is a difference and the run is not known to have been recorded by this build of Daybook, although by the same engine: another build may convert TypeScript and files of a run in another way."`
	Reason     string `json:"reason,omitempty" doc:"Machine-readable cause of not_replayed, for example heap_collected."`
	Message    string `json:"message,omitempty" doc:"Text of the cause."`
	EngineID   string `json:"engine_id,omitempty" doc:"Engine of the replay."`
	// RecordedEngineID is empty if no script was started.
	RecordedEngineID string    `json:"recorded_engine_id,omitempty" doc:"Engine of the recorded run."`
	Heap             string    `json:"heap,omitempty" doc:"Hash of the heap that the replay left. It is not stored."`
	MigratedHeap     string    `json:"migrated_heap,omitempty" doc:"Heap that was restored in place of the recorded input heap, which another engine made: its recorded migration."`
	WallMillis       int64     `json:"wall_ms" doc:"Duration of the replay in milliseconds."`
	Timeline         *Timeline `json:"timeline,omitempty" doc:"What the replay did, in order, if the request asks for it."`
	// Sequence is the position of the event that records the verdict.
	Sequence uint64 `json:"-"`
}

// ReplayDifference is a difference between a recorded run and its replay.
type ReplayDifference struct {
	Part     events.ReplayPart `json:"part" enum:"output,artifacts,calls,status,javascript,result,error,heap" doc:"What differs."`
	Line     int64             `json:"line,omitempty" doc:"Number of the line of output, from 1."`
	Call     int               `json:"call,omitempty" doc:"Number of the host call, from 1."`
	Artifact int               `json:"artifact,omitempty" doc:"Number of the artifact, from 1."`
	Recorded string            `json:"recorded" doc:"The recorded value, or the part of it around the first difference."`
	Replayed string            `json:"replayed" doc:"The value of the replay, or the part of it around the first difference."`
}

// Timeline is what a replay did, in order. It has at most 10,000 steps, whose texts have at most
// 1 MiB together.
type Timeline struct {
	StartTime string         `json:"start_time" doc:"The script's clock at the start."`
	Steps     []TimelineStep `json:"steps" doc:"The first steps, and the end if the script reached it."`
	Timers    int64          `json:"timers" doc:"Number of timers that fired, also those that are not in steps."`
	Calls     int64          `json:"calls" doc:"Number of host calls that the script made, also those that are not in steps."`
	Answers   int64          `json:"answers" doc:"Number of answers that the script received, also those that are not in steps."`
	Lines     int64          `json:"lines" doc:"Number of lines of output that the script began, also those that are not in steps."`
	Artifacts int64          `json:"artifacts,omitempty" doc:"Number of artifacts that the script created, also those that are not in steps."`
	Cut       bool           `json:"cut" doc:"True if steps are missing, or the text of a step is shortened and ends in an ellipsis."`
}

// TimelineStep is a step of a replay.
type TimelineStep struct {
	Kind        string `json:"kind" enum:"timer,call,answer,output,artifact,end" doc:"timer: a timer fires. call: the script makes a host call. answer: it receives the answer. output: it writes a line. artifact: it creates an artifact. end: the script ends."`
	OffsetMS    int64  `json:"offset_ms" doc:"Milliseconds of the script's clock since the start."`
	Time        string `json:"time" doc:"Time on the script's clock; for output in whole milliseconds."`
	Call        int    `json:"call,omitempty" doc:"Number of the host call, from 1."`
	Line        int64  `json:"line,omitempty" doc:"Number of the line of output, from 1."`
	Artifact    int    `json:"artifact,omitempty" doc:"Number of the artifact, from 1."`
	Name        string `json:"name" doc:"setTimeout, setInterval or setImmediate; the tool of a call or answer, as server.tool; the level of output; the name of an artifact; the status at the end."`
	Text        string `json:"text,omitempty" doc:"Name of a timer's callback, arguments of a call, value or error of an answer, text of output, media type and size of an artifact, result or error at the end; at most 4 KiB."`
	DelayMillis int64  `json:"delay_ms,omitempty" doc:"Delay that the timer was set with."`
	Failed      bool   `json:"failed,omitempty" doc:"True for an answer that is an error."`
}

// timelineBytes is the memory that a timeline takes in an answer, in bytes.
const timelineBytes = 4 << 20

// replayBody documents the request body; replayExecution decodes it.
type replayBody struct {
	Timeline *bool `json:"timeline,omitempty" nullable:"true" doc:"True adds the timeline to the answer: timers, host calls, answers and output in the order of the replay."`
}

func (a *api) replayExecutionRoutes(r *router) {
	o := huma.Operation{
		OperationID: "replay-execution", Method: http.MethodPost, Path: "/api/executions/{id}/replay", Tags: []string{tagExecutions},
		Summary: "Replay an execution",
		Description: "Executes an ended run again from its recorded source, heap, seed and start time, with its recorded host calls, and compares output, artifacts, calls, status, result, error and heap with the record. Calls no tool, and stores neither output nor heap. " +
			"Answers with the verdict, which is recorded as an event. Timers take no real time, so a replay is often faster than the run.",
		RequestBody: &huma.RequestBody{Content: map[string]*huma.MediaType{"application/json": mediaOf[replayBody](r)}},
	}
	register(r, o, []int{http.StatusBadRequest, http.StatusNotFound, http.StatusConflict, http.StatusGone, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusTooManyRequests}, a.replayExecution)
	delete(o.RequestBody.Content, "application/octet-stream")
	o.RequestBody.Required = false // huma treats every RawBody as required
}

// explainUnknown returns an *events.RemovedError if err has CodeNotFound and the execution was
// removed with its volume, and otherwise err.
func (a *api) explainUnknown(ctx context.Context, id string, err error) error {
	if ledger.CodeOf(err) != ledger.CodeNotFound {
		return err
	}
	_, unknown := a.q.ExecutionPreview(ctx, requestOf(ctx).tenant, id)
	if removed, ok := errors.AsType[*events.RemovedError](unknown); ok {
		return removed
	}
	return err
}

type replayExecutionInput struct {
	OneExecution
	RawBody []byte
}

type replayExecutionAnswer struct {
	Written
	Body Replayed
}

func (a *api) replayExecution(ctx context.Context, in *replayExecutionInput) (*replayExecutionAnswer, error) {
	r := requestOf(ctx)
	var timeline bool
	if len(in.RawBody) > 0 {
		if f := requireJSON(r, in.RawBody, `curl -X POST -H 'Content-Type: application/json' --data '{"timeline":true}' ...`); f != nil {
			return nil, f
		}
		if f := decodeObject(in.RawBody, map[string]member{"timeline": boolean(&timeline)}); f != nil {
			return nil, f
		}
	}
	if a.replays == nil {
		return nil, absent("this server runs no scripts, and cannot replay executions")
	}
	if timeline {
		if err := budget.TakeOnce(ctx, timelineBytes); err != nil {
			return nil, err
		}
	}
	done, err := a.replays.Replay(ctx, r.tenant, in.ID, timeline, r.actor)
	if err != nil {
		return nil, a.explainUnknown(ctx, in.ID, err)
	}
	return &replayExecutionAnswer{Written: a.noteWrite(done.Sequence), Body: done}, nil
}
