package mcp

import (
	"context"
	"errors"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/events"
	"daybook/internal/link"
	"daybook/internal/resources/budget"
	"daybook/internal/resources/reads"
	"daybook/ledger"
	"daybook/projections"
)

func (s *Server) executionTools() []tool {
	id := property{name: "execution_id", kind: text, required: true}
	return []tool{
		{
			name: "get_execution", title: "Get execution", readOnly: true, idempotent: true,
			description: "Get a run's status, result, error and heap; with wait_secs also output.",
			input:       []property{id, waitProperty},
			output:      objectSchema(executionFields()...),
			call:        s.getExecution,
		},
		{
			name: "get_execution_output", title: "Get console output", heavy: true, readOnly: true, idempotent: true,
			description: "Read a run's console output by lines or, with byte_offset, by bytes. " +
				"Continue at next_line_offset while has_more is true or status is running.",
			input: []property{
				id,
				{name: "line_offset", kind: integer, defaultInt: 1},
				{name: "line_limit", kind: integer, defaultInt: projections.DefaultLineLimit},
				{name: "byte_offset", kind: integer},
				{name: "byte_limit", kind: integer, defaultInt: projections.DefaultByteLimit},
			},
			output: objectSchema(typedField("execution_id", "string"), typedField("data", "string"),
				typedField("start_line", "integer"), typedField("end_line", "integer"), typedField("next_line_offset", "integer"), typedField("total_lines", "integer"),
				typedField("start_byte", "integer"), typedField("end_byte", "integer"), typedField("next_byte_offset", "integer"), typedField("total_bytes", "integer"),
				typedField("has_more", "boolean"), statusField(), optionalField(typedField("truncated", "boolean"))),
			call: s.getOutput,
		},
		{
			name: "cancel_execution", title: "Cancel execution", destructive: true, idempotent: true,
			description: "Cancel a run. If ok is false, error says why.",
			input:       []property{id},
			output:      objectSchema(typedField("ok", "boolean"), optionalField(typedField("error", "string"))),
			call:        s.cancelExecution,
		},
		{
			name: "list_executions", title: "List executions", heavy: true, readOnly: true, idempotent: true,
			description: "List executions, newest first.",
			input: []property{
				{name: "status", kind: text, oneOf: statuses()},
				{name: "session", kind: text},
				{name: "limit", kind: integer, max: 1000},
				{name: "cursor", kind: text, description: "next_cursor"},
			},
			output: objectSchema(
				listField("executions", objectSchema(typedField("execution_id", "string"), statusField(), typedField("started_at", "string"), nullableField("completed_at", "string"))),
				optionalField(typedField("next_cursor", "string"))),
			call: s.listExecutions,
		},
	}
}

func statuses() []string {
	return []string{
		string(events.StatusRunning), string(events.StatusCompleted), string(events.StatusFailed),
		string(events.StatusTimedOut), string(events.StatusCancelled),
	}
}

func statusField() field {
	return field{name: "status", schema: object{{"type", "string"}, {"enum", statuses()}}}
}

// executionAnswer is the answer of get_execution: the documented members, and those that
// help a client to use the run.
type executionAnswer struct {
	projections.Execution
	Queued          bool             `json:"queued"`
	RequestedAt     string           `json:"requested_at"`
	QueuedMillis    *int64           `json:"queued_ms,omitempty"`
	TotalLines      int64            `json:"total_lines"`
	TotalBytes      int64            `json:"total_bytes"`
	ResultTruncated bool             `json:"result_truncated,omitempty"`
	ResultPreview   bool             `json:"result_preview,omitempty"`
	ErrorPreview    bool             `json:"error_preview,omitempty"`
	Artifacts       []artifactAnswer `json:"artifacts,omitempty"`
	Pristine        *bool            `json:"pristine,omitempty"`
	Warnings        []string         `json:"warnings,omitempty"`
	// cutTexts holds the texts that were cut when they were read: the full size of each in
	// bytes, by its name.
	cutTexts map[string]int64
}

// executionFields returns the members of an answer about an execution, the required ones
// first.
func executionFields() []field {
	return []field{
		typedField("execution_id", "string"), statusField(), nullableField("result", "string"), nullableField("heap", "string"),
		nullableField("error", "string"), typedField("started_at", "string"), nullableField("completed_at", "string"),
		typedField("queued", "boolean"), typedField("requested_at", "string"), optionalField(typedField("queued_ms", "integer")), typedField("total_lines", "integer"), typedField("total_bytes", "integer"),
		optionalField(typedField("output", "string")), optionalField(typedField("next_line_offset", "integer")), optionalField(typedField("next_byte_offset", "integer")), optionalField(typedField("has_more", "boolean")),
		optionalField(typedField("result_truncated", "boolean")), optionalField(typedField("result_preview", "boolean")), optionalField(typedField("error_preview", "boolean")),
		artifactField(), optionalField(typedField("pristine", "boolean")), optionalField(listField("warnings", object{{"type", "string"}})),
	}
}

func (s *Server) getExecution(ctx context.Context, c caller, a arguments) (answer, error) {
	id := a.text("execution_id")
	if !a.has(argWait) {
		d, err := s.execution(ctx, id)
		if err != nil {
			return answer{}, aboutExecution(id, err)
		}
		shown := showExecution(d)
		links := preview(&shown)
		var blocks []sdk.Content
		if shown.Artifacts, blocks, err = s.artifactsOf(ctx, d); err != nil {
			return answer{}, aboutExecution(id, err)
		}
		return answer{links: links, blocks: blocks, value: shown}, nil
	}
	if err := checkWait(a); err != nil {
		return answer{}, err
	}
	ans, err := s.awaitFullAnswer(ctx, c, ledger.Receipt{ExecutionID: id}, a)
	if err != nil {
		return answer{}, aboutExecution(id, err)
	}
	ans.seq = 0 // a read records no event
	return ans, nil
}

// execution reads an execution. It yields the permit that a large text may have taken, so
// that the permit is not held while the call waits for a run or for its client. Texts that
// are too large for one answer are cut to their beginnings. In stateless mode such a text
// is an error instead, because a client can read a result only in the answer.
func (s *Server) execution(ctx context.Context, id string) (projections.ExecutionDetail, error) {
	d, err := s.opts.Queries.Execution(ctx, s.tenant, id)
	reads.From(ctx).Yield()
	if full, exhausted := errors.AsType[*budget.ExhaustedError](err); exhausted && full.IsPermanent() && !s.opts.Stateless {
		return s.opts.Queries.ExecutionPreview(ctx, s.tenant, id)
	}
	return d, err
}

func showExecution(d projections.ExecutionDetail) executionAnswer {
	return executionAnswer{
		Execution: d.Execution, Queued: d.Queued, RequestedAt: d.RequestedAt, QueuedMillis: d.QueuedMillis,
		TotalLines: d.TotalLines, TotalBytes: d.TotalBytes, ResultTruncated: d.ResultTruncated, Pristine: d.Pristine, Warnings: d.Warnings, cutTexts: d.CutTexts,
	}
}

func (s *Server) getOutput(ctx context.Context, _ caller, a arguments) (answer, error) {
	q := projections.OutputQuery{
		LineOffset: a.integer("line_offset", 1),
		LineLimit:  a.integer("line_limit", projections.DefaultLineLimit),
		ByteLimit:  a.integer("byte_limit", projections.DefaultByteLimit),
	}
	if a.has("byte_offset") {
		from := a.integer("byte_offset", 0)
		q.ByteOffset = &from
	}
	if err := checkPage(q); err != nil {
		return answer{}, err
	}
	id := a.text("execution_id")
	page, err := s.opts.Queries.Output(ctx, s.tenant, id, q)
	if err == nil {
		err = takeEscapes(ctx, page.Data)
	}
	if err != nil {
		return answer{}, aboutExecution(id, err)
	}
	return answer{value: page}, nil
}

// checkPage refuses invalid offsets and limits. With byte_offset it checks those for
// bytes, otherwise those for lines.
func checkPage(q projections.OutputQuery) error {
	switch {
	case q.ByteOffset != nil && *q.ByteOffset < 0:
		return ledger.Invalid("byte_offset", "byte_offset must be 0 or more, not %d", *q.ByteOffset)
	case q.ByteOffset != nil && q.ByteLimit < 1:
		return ledger.Invalid("byte_limit", "byte_limit must be 1 or more, not %d", q.ByteLimit)
	case q.ByteOffset == nil && q.LineOffset < 1:
		return ledger.Invalid("line_offset", "line_offset must be 1 or more, not %d: the first line is 1", q.LineOffset)
	case q.ByteOffset == nil && q.LineLimit < 1:
		return ledger.Invalid("line_limit", "line_limit must be 1 or more, not %d", q.LineLimit)
	default:
		return nil
	}
}

// okAnswer is the answer of commands that return only success or failure.
type okAnswer struct {
	OK    bool   `json:"ok"`
	Error string `json:"error,omitempty"`
}

func (s *Server) cancelExecution(ctx context.Context, c caller, a arguments) (answer, error) {
	seq, err := s.opts.Commands.Cancel(ctx, s.tenant, a.text("execution_id"), c.actor)
	if codeOf(err) == ledger.CodeConflict && s.cancelledBefore(ctx, c.delivery, a.text("execution_id")) {
		return answer{value: okAnswer{OK: true}}, nil
	}
	switch codeOf(err) {
	case ledger.CodeNotFound, ledger.CodeConflict:
		// The documented form: an execution that is not running is an answer, not an error.
		return answer{value: okAnswer{Error: err.Error()}}, nil
	}
	if err != nil {
		return answer{}, err
	}
	return answer{value: okAnswer{OK: true}, seq: seq}, nil
}

// cancelledBefore reports whether a call that is delivered again has already cancelled
// the execution, through a server that has ended since.
func (s *Server) cancelledBefore(ctx context.Context, d link.Delivery, id string) bool {
	if !d.Again {
		return false
	}
	found, err := s.execution(ctx, id)
	return err == nil && found.Status == events.StatusCancelled
}

func (s *Server) listExecutions(ctx context.Context, c caller, a arguments) (answer, error) {
	f := projections.ExecutionFilter{
		Status:  events.Status(a.text("status")),
		Session: a.text("session"),
		Cursor:  a.text("cursor"),
	}
	var err error
	if a.has("session") { // no run is logged under an invalid name
		if err := ledger.CheckSession(f.Session); err != nil {
			return answer{}, err
		}
		found, err := s.findSession(ctx, c, f.Session)
		switch {
		case err == nil && found.Kind == events.SessionLog:
			f.Session = *found.Name
		case err == nil:
			f.Session, f.LogicalSession = "", found.SessionID
		case err != nil && !errors.Is(err, events.ErrNotFound):
			return answer{}, err
		}
	}
	if f.Limit, err = a.pageLimit(); err != nil {
		return answer{}, err
	}
	page, err := s.opts.Queries.Executions(ctx, s.tenant, f)
	if err != nil {
		return answer{}, err
	}
	if page.Executions == nil {
		page.Executions = []projections.ExecutionSummary{}
	}
	return answer{value: page}, nil
}

// pageLimit returns the requested length of a page; 0 if the argument is absent.
func (a arguments) pageLimit() (int, error) {
	if !a.has("limit") {
		return 0, nil
	}
	n := a.integer("limit", 0)
	if n < 1 || n > projections.MaxListLimit {
		return 0, ledger.Invalid("limit", "limit must be 1 to %d, not %d", projections.MaxListLimit, n)
	}
	return int(n), nil
}

// aboutExecution adds the id to an error for an unknown execution.
func aboutExecution(id string, err error) error {
	if errors.Is(err, events.ErrNotFound) {
		return executionNotFound(id)
	}
	return err
}
