package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"mime"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"daybook/ledger"
)

// submission documents the JSON body; decodeExec decodes it.
type submission struct {
	Code                 string            `json:"code" doc:"JavaScript or TypeScript source: up to 16 MiB of valid UTF-8 without NUL bytes."`
	Heap                 *string           `json:"heap,omitempty" nullable:"true" doc:"Key of the heap to restore; a fresh isolate if absent. none runs the script in a plain isolate, which has WebAssembly and leaves no heap." example:"a3f8b2c1d4e5f6a7b8c9d0e1f2a3b4c5d6e7f8a9b0c1d2e3f4a5b6c7d8e9f0a1"`
	Session              *string           `json:"session,omitempty" nullable:"true" doc:"Name of the session that the run is logged under."`
	LogicalSession       *string           `json:"logical_session,omitempty" nullable:"true" doc:"Id of a logical session. The run starts from the heap of the turn before; heap must be absent."`
	HeapMemoryMaxMB      *int              `json:"heap_memory_max_mb,omitempty" nullable:"true" doc:"Limit of the V8 heap in MiB."`
	ExecutionTimeoutSecs *int              `json:"execution_timeout_secs,omitempty" nullable:"true" doc:"Wall-clock limit in seconds, 1 to 300."`
	Tags                 map[string]string `json:"tags,omitempty" nullable:"true" doc:"Tags that replace those of the output heap once the run completes; {} clears them."`
	FileName             *string           `json:"file_name,omitempty" nullable:"true" doc:"Name shown in stack traces; default main.ts."`
	Files                map[string]string `json:"files,omitempty" nullable:"true" doc:"Sources of other files by path, such as {\"lib/util.ts\": \"export const x = 1\"}; the code imports them as ./PATH. At most 256, with 16 MiB together."`
	RequireHeap          *bool             `json:"require_heap,omitempty" nullable:"true" doc:"True refuses a heap that is not recorded; otherwise the run starts from a fresh isolate, with a warning."`
}

type execInput struct {
	Heap                 string        `query:"heap" doc:"Key of the heap to restore, or none to leave no heap. This and the parameters from session to file_name are for raw bodies only."`
	Session              string        `query:"session" doc:"Name of the session that the run is logged under."`
	LogicalSession       string        `query:"logical_session" doc:"Id of a logical session."`
	HeapMemoryMaxMB      optional[int] `query:"heap_memory_max_mb" doc:"Limit of the V8 heap in MiB."`
	ExecutionTimeoutSecs optional[int] `query:"execution_timeout_secs" doc:"Wall-clock limit in seconds, 1 to 300."`
	Tags                 []string      `query:"tag,explode" doc:"Tag for the output heap as KEY=VALUE; repeatable."`
	FileName             string        `query:"file_name" doc:"Name shown in stack traces."`
	Wait                 optional[int] `query:"wait" doc:"Seconds to wait for the end, with either form of body. 200 with the execution and the beginning of its output if it ended in time, 202 otherwise."`
	RequireHeap          bool          `query:"require_heap" doc:"True refuses a heap that is not recorded, with either form of body."`
	IdempotencyKey       string        `header:"Idempotency-Key" doc:"The same key always returns the same execution; with another body it is a conflict."`
	RawBody              []byte
}

type execAnswer struct {
	Written
	Status   int
	Location string `header:"Location" doc:"Path of the execution; with 202 only."`
	Body     execBody
}

type accepted struct {
	ExecutionID string   `json:"execution_id" doc:"Id to follow, read or cancel the run."`
	Warnings    []string `json:"warnings,omitempty" doc:"Differences from the request; absent if there are none."`
}

// execBody is the body of one of the two responses to a submission.
type execBody struct {
	accepted accepted
	// ended is nil if the status is 202.
	ended *executionDetail
}

// MarshalJSON encodes ended if it is set, and accepted otherwise.
func (b execBody) MarshalJSON() ([]byte, error) {
	var v any = b.accepted
	if b.ended != nil {
		v = b.ended
	}
	var out bytes.Buffer
	err := encoder(&out).Encode(v)
	return bytes.TrimRight(out.Bytes(), "\n"), err
}

func (a *api) submit(ctx context.Context, in *execInput) (*execAnswer, error) {
	r := requestOf(ctx)
	asJSON, f := bodyForm(r, in.RawBody)
	if f != nil {
		return nil, f
	}
	if f := checkRange("wait", in.Wait.Value, 0, maxWaitSecs); f != nil {
		return nil, f
	}
	if keys := r.header.Values("Idempotency-Key"); len(keys) > 1 || len(keys) == 1 && keys[0] == "" {
		return nil, invalid("Idempotency-Key", "give one Idempotency-Key that is not empty, or none")
	}
	s := ledger.Submission{
		Tenant: r.tenant, Actor: r.actor, Traceparent: r.traceparent, IdempotencyKey: in.IdempotencyKey,
	}
	required := in.RequireHeap
	if asJSON {
		f = decodeExec(in.RawBody, r, &s)
		required = required || s.RequireHeap
	} else {
		f = rawExec(in, r, &s)
	}
	if f != nil {
		return nil, f
	}
	s.RequireHeap = required
	a.addToContext(ctx, &s)
	receipt, err := a.cmd.Submit(ctx, s)
	if err != nil {
		return nil, err
	}
	// The source is recorded: it is not held while the client waits for the end.
	s, in.RawBody = ledger.Submission{}, nil
	forgetBody(ctx)
	out := &execAnswer{
		Written: a.noteWrite(receipt.Seq), Status: http.StatusAccepted, Location: "/api/executions/" + receipt.ExecutionID,
		Body: execBody{accepted: accepted{receipt.ExecutionID, receipt.Warnings}},
	}
	if !in.Wait.Set {
		return out, nil
	}
	// The run is accepted: the client gets its id even if it cannot be read now.
	d, err := a.awaitEnd(ctx, receipt.ExecutionID, receipt.Seq, in.Wait.Value, true)
	switch {
	case err != nil:
		a.logFailure(ctx, "wait for the end of a submitted run failed", err, "execution", receipt.ExecutionID)
	case d.Status.Terminal():
		out.Status, out.Location, out.Body.ended = http.StatusOK, "", &d
	}
	return out, nil
}

// decodeExec decodes a JSON submission into s.
func decodeExec(raw []byte, r *request, s *ledger.Submission) *failure {
	for name := range r.query {
		if name == "wait" || name == "require_heap" {
			continue // these two are valid with either form of body
		}
		return invalid(name, "%s is given in the query of a JSON request; put it into the JSON object", name)
	}
	given := false
	f := decodeObject(raw, map[string]member{
		"code":                   text(&s.Code, &given),
		"heap":                   text(&s.Heap, nil),
		"session":                text(&s.Session, nil),
		"logical_session":        text(&s.LogicalSession, nil),
		"heap_memory_max_mb":     integer(&s.HeapMemoryMaxMB),
		"execution_timeout_secs": integer(&s.ExecutionTimeoutSecs),
		"tags":                   textMap(&s.Tags),
		"file_name":              text(&s.FileName, nil),
		"files":                  textMap(&s.Files),
		"require_heap":           boolean(&s.RequireHeap),
	})
	switch {
	case f != nil && f.problem.Field == "" && r.header.Get("Content-Type") == "":
		f = invalid("", "%s. Without a Content-Type the body is read as JSON; add the header \"Content-Type: text/plain\" to send the script itself", f.problem.Error)
	case f == nil && !given:
		f = mistyped("code", "code is missing: give the script as a string")
	}
	return f
}

// rawExec sets s for a body that is the script itself.
func rawExec(in *execInput, r *request, s *ledger.Submission) *failure {
	tags, f := tagList("tag", r.query["tag"])
	if f != nil {
		return f
	}
	s.Code, s.Heap, s.Session, s.FileName, s.Tags = string(in.RawBody), in.Heap, in.Session, in.FileName, tags
	s.LogicalSession = in.LogicalSession
	if in.HeapMemoryMaxMB.Set {
		s.HeapMemoryMaxMB = &in.HeapMemoryMaxMB.Value
	}
	if in.ExecutionTimeoutSecs.Set {
		s.ExecutionTimeoutSecs = &in.ExecutionTimeoutSecs.Value
	}
	return nil
}

// bodyForm reports whether the body is a JSON object or the script itself.
func bodyForm(r *request, raw []byte) (asJSON bool, _ *failure) {
	if f := checkBodyEncoding(r); f != nil {
		return false, f
	}
	return bodyType(r, raw)
}

// bodyType reports whether the body is JSON or the script itself: by its Content-Type, and for
// a form also by its content.
func bodyType(r *request, raw []byte) (asJSON bool, _ *failure) {
	given := r.header.Get("Content-Type")
	if given == "" {
		return true, nil
	}
	name, _, err := mime.ParseMediaType(given)
	if err != nil {
		return false, unsupported("Content-Type", "Content-Type %q is not a media type; use application/json, or text/plain for the script itself", given)
	}
	switch {
	case name == "application/x-www-form-urlencoded":
		// curl -d sends this type for every body.
		if looksLikeObject(raw) {
			return true, nil
		}
		return false, unsupported("Content-Type",
			"the body is marked as a form, which is what curl -d does; send a script with: curl -H 'Content-Type: text/plain' --data-binary @script.js http://%s/api/exec", r.host)
	case strings.HasPrefix(name, "multipart/"):
		return false, unsupported("Content-Type",
			"multipart bodies are not accepted; send the script itself with: curl -H 'Content-Type: text/plain' --data-binary @script.js http://%s/api/exec", r.host)
	default:
		return strings.Contains(name, "json"), nil
	}
}

func looksLikeObject(raw []byte) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) > 0 && raw[0] == '{' && json.Valid(raw)
}

func unsupported(field, format string, args ...any) *failure {
	return fail(http.StatusUnsupportedMediaType, codeUnsupported, field, format, args...)
}

// execOperation documents POST /api/exec.
func execOperation(r *router) huma.Operation {
	script := &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Description: "The script itself; parameters are in the query."}}
	return huma.Operation{
		OperationID: idSubmit, Method: http.MethodPost, Path: "/api/exec", Tags: []string{tagExecutions},
		Summary:       "Run a script",
		Description:   "Records the run and answers 202 at once or, with wait, 200 and the execution once it has ended. Send a JSON object, or the script itself with any other content type and parameters in the query. A body without a content type is read as JSON.",
		DefaultStatus: http.StatusAccepted,
		Responses: map[string]*huma.Response{
			"200": {Description: "The execution, which ended within the time to wait.", Content: map[string]*huma.MediaType{"application/json": mediaOf[executionDetail](r)}},
			"202": {Description: "Accepted.", Content: map[string]*huma.MediaType{"application/json": mediaOf[accepted](r)}},
		},
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			"application/json": mediaOf[submission](r),
			"text/plain":       script,
		}},
	}
}
