package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"daybook/events"
	"daybook/internal/globals"
	"daybook/internal/resources/budget"
	"daybook/ledger"
)

// ReplacementScript is a script that takes the place of a recorded one.
type ReplacementScript struct {
	Code     string
	FileName string // empty for that of the recorded run
}

// WhatIf is the difference between a recorded run and another script with its inputs.
type WhatIf struct {
	ExecutionID string `json:"execution_id" doc:"Id of the execution whose inputs were used."`
	Executed    bool   `json:"executed" doc:"False if the script could not be executed with the recorded inputs: reason and message say why, and the other members have no meaning."`
	Reason      string `json:"reason,omitempty" doc:"Machine-readable cause if the script was not executed, for example heap_collected."`
	Message     string `json:"message,omitempty" doc:"Text of the cause."`
	// IsEqual is named for what it says of the two runs.
	IsEqual  bool       `json:"equal" doc:"True if nothing differs that was compared."`
	Stopped  bool       `json:"stopped" doc:"True if the recorded run was stopped, for example by its time limit."`
	Recorded *ScriptEnd `json:"recorded,omitempty" doc:"Recorded end of the execution."`
	New      *ScriptEnd `json:"new,omitempty" doc:"End of the script."`
	// MissingCall ended the script.
	MissingCall    *MissingCall `json:"missing_call,omitempty" doc:"The call that ended the script, because no answer to it is recorded."`
	Calls          int          `json:"calls" doc:"Number of host calls of the script."`
	RecordedCalls  int          `json:"recorded_calls" doc:"Number of recorded host calls of the execution."`
	Output         OutputDiff   `json:"output" doc:"Difference of the output, by lines. Times of lines are not compared."`
	Artifacts      ArtifactDiff `json:"artifacts" doc:"Difference of the artifacts, in their order. Their times and their places in the output are not compared."`
	Globals        *GlobalsDiff `json:"globals,omitempty" doc:"Difference of the globals of the two heaps that the runs left; absent if they were not compared."`
	GlobalsMessage string       `json:"globals_message,omitempty" doc:"Why the globals were not compared."`
	EngineID       string       `json:"engine_id,omitempty" doc:"Engine of the script."`
	RecordedEngine string       `json:"recorded_engine_id,omitempty" doc:"Engine of the recorded run."`
	WallMillis     int64        `json:"wall_ms" doc:"Duration in milliseconds."`
}

// ScriptEnd is how a script ended.
type ScriptEnd struct {
	Status events.Status `json:"status,omitempty" doc:"Status of the execution; absent for a script that ended because the record has no answer for it."`
	Reason string        `json:"reason,omitempty" doc:"Machine-readable cause of an end other than completed; missing_call or unanswered for a script that ended because the record has no answer for it."`
	Text   *string       `json:"text,omitempty" doc:"Result or error, cut at 4 KiB; absent for undefined."`
	SHA256 string        `json:"sha256,omitempty" doc:"SHA-256 of the whole text."`
}

// MissingCall is a host call that is not recorded.
type MissingCall struct {
	Number    int    `json:"number" doc:"Number of the call in the script, from 1."`
	Server    string `json:"server" doc:"MCP server."`
	Tool      string `json:"tool" doc:"Tool."`
	Arguments string `json:"arguments" doc:"Arguments as JSON, cut at 4 KiB."`
}

// OutputDiff is the difference of two outputs.
type OutputDiff struct {
	RecordedLines int64        `json:"recorded_lines" doc:"Number of lines of the recorded output."`
	Lines         int64        `json:"lines" doc:"Number of lines of the output of the script."`
	IsEqual       bool         `json:"equal" doc:"True if all lines are equal, with their levels."`
	Changes       []LineChange `json:"changes" doc:"Lines that differ, with up to three equal lines before and after: at most 2,000 lines and 1 MiB."`
	Cut           bool         `json:"cut" doc:"True if lines are missing in changes, if only the first 20,000 lines were compared one by one, or if the text of a line is cut at 4 KiB."`
}

// LineChange is a line of a difference.
type LineChange struct {
	Op           string       `json:"op" enum:"equal,removed,added" doc:"removed: only in the recorded output. added: only in the output of the script."`
	RecordedLine int64        `json:"recorded_line,omitempty" doc:"Number of the line in the recorded output, from 1."`
	Line         int64        `json:"line,omitempty" doc:"Number of the line in the output of the script, from 1."`
	Level        events.Level `json:"level" doc:"Method of the console."`
	Text         string       `json:"text" doc:"Text of the line."`
}

// ArtifactDiff is the difference of the artifacts of two runs.
type ArtifactDiff struct {
	Recorded  int              `json:"recorded_artifacts" doc:"Number of recorded artifacts of the execution."`
	Artifacts int              `json:"artifacts" doc:"Number of artifacts of the script."`
	IsEqual   bool             `json:"equal" doc:"True if all artifacts are equal: names, media types and bytes."`
	Changes   []ArtifactChange `json:"changes" doc:"Artifacts that only one of the runs created."`
}

// ArtifactChange is an artifact of a difference.
type ArtifactChange struct {
	Op     string `json:"op" enum:"removed,added" doc:"removed: only the recorded run created it. added: only the script did."`
	Number int    `json:"number" doc:"Number of the artifact in its run, from 1."`
	Name   string `json:"name" doc:"Name of the artifact."`
	MIME   string `json:"mime" doc:"Media type that the script stated."`
	Size   int64  `json:"size" doc:"Number of bytes."`
	SHA256 string `json:"sha256" doc:"SHA-256 of the bytes; a keyed hash if the content of the execution is encrypted in the ledger."`
}

// GlobalsDiff is the difference of the globals of two heaps.
type GlobalsDiff struct {
	Added      []globals.Global `json:"added" doc:"Globals that only the script left."`
	Removed    []globals.Global `json:"removed" doc:"Globals that only the recorded run left."`
	Changed    []GlobalChange   `json:"changed" doc:"Globals that differ."`
	Uncompared int              `json:"uncompared" doc:"Number of globals that were not compared, because a heap has more than 1,000."`
	Partial    int              `json:"partial" doc:"Number of globals that are equal in the part that was compared."`
}

// GlobalChange is a global that differs.
type GlobalChange struct {
	Recorded globals.Global `json:"recorded" doc:"The global in the heap that the recorded run left."`
	New      globals.Global `json:"new" doc:"The global in the heap that the script left."`
}

// whatIfBytes is the memory that a WhatIf takes in an answer, in bytes.
const whatIfBytes = 12 << 20

// whatIfBody documents the request body; whatIf decodes it.
type whatIfBody struct {
	Code     string  `json:"code" doc:"JavaScript or TypeScript that takes the place of the recorded source."`
	FileName *string `json:"file_name,omitempty" nullable:"true" doc:"Name of the source in stack traces; default: that of the execution."`
}

func (a *api) whatIfRoutes(r *router) {
	o := huma.Operation{
		OperationID: "what-if-execution", Method: http.MethodPost, Path: "/api/executions/{id}/what-if", Tags: []string{tagExecutions},
		Summary: "Execute other code with the inputs of an execution",
		Description: "Executes the given code with the recorded values, input heap, seed, start time, limits and answers to host calls of an ended execution, and answers with the difference of output, artifacts, result or error, and globals. " +
			"Calls no tool and stores nothing: neither output nor artifacts nor heap, and no event. " +
			"A host call is answered by the first recorded call of the same tool with the same arguments that did not answer one yet, in whatever order. A call that is not recorded ends the script.",
		RequestBody: &huma.RequestBody{Content: map[string]*huma.MediaType{"application/json": mediaOf[whatIfBody](r)}},
	}
	register(r, o, []int{http.StatusBadRequest, http.StatusNotFound, http.StatusConflict, http.StatusGone, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusTooManyRequests}, a.whatIf)
	delete(o.RequestBody.Content, "application/octet-stream") // huma documents it for every RawBody
}

type whatIfInput struct {
	OneExecution
	RawBody []byte
}

type whatIfAnswer struct{ Body WhatIf }

func (a *api) whatIf(ctx context.Context, in *whatIfInput) (*whatIfAnswer, error) {
	r := requestOf(ctx)
	if f := requireJSON(r, in.RawBody, `curl -H 'Content-Type: application/json' --data '{"code":"..."}' ...`); f != nil {
		return nil, f
	}
	var s ReplacementScript
	var given bool
	if f := decodeObject(in.RawBody, map[string]member{"code": text(&s.Code, &given), "file_name": text(&s.FileName, nil)}); f != nil {
		return nil, f
	}
	if !given {
		return nil, mistyped("code", "code is missing: give the script as a string")
	}
	if err := ledger.CheckScript(s.Code, s.FileName); err != nil {
		return nil, err
	}
	if a.replays == nil {
		return nil, absent("this server runs no scripts, and cannot execute any with recorded inputs")
	}
	if err := budget.TakeOnce(ctx, whatIfBytes); err != nil {
		return nil, err
	}
	w, err := a.replays.WhatIf(ctx, r.tenant, in.ID, s, r.actor)
	if err != nil {
		return nil, a.explainUnknown(ctx, in.ID, err)
	}
	return &whatIfAnswer{Body: w}, nil
}
