package mcp

import (
	"context"

	"daybook/ledger"
)

const runJSDescription = "Run JavaScript or TypeScript in V8. Returns {execution_id} at once; " +
	"call get_execution until status is not \"running\": result is the value of the last expression (top-level await works), " +
	"heap a snapshot of all state. Pass heap to the next run_js to continue with every variable, function and class; " +
	"without it the isolate is fresh. console.* output: get_execution_output. " +
	"A failed script still yields its heap; a timed out or cancelled one does not."

// The arguments both modes know.
var (
	codeProperty = property{name: "code", kind: text, required: true, about: "source; types are stripped, not checked"}

	limitProperties = []property{
		{name: "heap_memory_max_mb", kind: integer, about: "V8 heap limit in MB"},
		{name: "execution_timeout_secs", kind: integer, about: "wall-clock limit in seconds", min: 1, max: ledger.MaxTimeoutSecs},
	}
)

func (s *Server) runTools() []tool {
	about := s.opts.RunJSDescription
	if about == "" {
		about = runJSDescription
	}
	input := []property{
		codeProperty,
		{name: "heap", kind: text, about: "heap of an earlier run, to continue from"},
		{name: "logical_session_ref", kind: text, about: "of open_session, instead of heap"},
	}
	input = append(input, limitProperties...)
	input = append(input,
		property{name: "tags", kind: textMap, about: "tags of the resulting heap, if the run completes"},
		property{name: "reuse", kind: boolean, about: "if this session ran the same before, answer that run"},
		property{name: "idempotency_key", kind: text, about: "unique text; a call repeated with it answers the same execution"},
	)
	return []tool{{
		name: "run_js", title: "Run JavaScript", about: about,
		input:  input,
		output: record(is("execution_id", "string"), optional(listOf("warnings", object{{"type", "string"}})), optional(is(memberTried, "object"))),
		submit: s.submitRun, finish: accepted,
	}}
}

// submitted is the answer of run_js.
type submitted struct {
	ExecutionID string   `json:"execution_id"`
	Warnings    []string `json:"warnings,omitempty"`
	// AlreadyTried tells of an equal run before in the same context.
	AlreadyTried *triedBefore `json:"already_tried,omitempty"`
}

func (s *Server) submitRun(ctx context.Context, c caller, a arguments) (ledger.Receipt, error) {
	// To the ledger an empty text is an absent one. From a model it is a
	// mistake: a run without the state it was meant to have, or done twice.
	for _, name := range []string{"heap", "idempotency_key", "logical_session_ref"} {
		if a.has(name) && a.text(name) == "" {
			return ledger.Receipt{}, ledger.Invalid(name, "%s must not be empty; leave it out if there is none", name)
		}
	}
	sub := s.submission(c, a)
	sub.Session = c.session
	sub.Heap = a.text("heap")
	var err error
	if sub.LogicalSession, err = s.sessionOf(ctx, c, a); err != nil {
		return ledger.Receipt{}, err
	}
	sub.Tags = a.textMap("tags")
	if a.has("idempotency_key") {
		sub.IdempotencyKey = a.text("idempotency_key")
	}
	before := s.runContext(ctx, c, &sub)
	if before != nil && before.Reused && !a.has("idempotency_key") && a.truth("reuse") {
		c.earlier.before = before
		s.noteReuse(ctx, c, a, before)
		return ledger.Receipt{ExecutionID: before.ExecutionID, Repeated: true}, nil
	}
	r, err := s.opts.Commands.Submit(ctx, sub)
	if before != nil && before.ExecutionID != r.ExecutionID {
		before.Reused = false
		c.earlier.before = before
	}
	return r, err
}

// accepted answers at once; the run goes on.
func accepted(_ context.Context, c caller, r ledger.Receipt) (answer, error) {
	return answer{value: submitted{ExecutionID: r.ExecutionID, Warnings: r.Warnings, AlreadyTried: c.earlier.before}, seq: r.Seq}, nil
}

// submission takes what both modes know from the arguments.
func (s *Server) submission(c caller, a arguments) ledger.Submission {
	return ledger.Submission{
		Tenant:               s.tenant,
		Code:                 a.text("code"),
		HeapMemoryMaxMB:      a.optionalInt("heap_memory_max_mb"),
		ExecutionTimeoutSecs: a.optionalInt("execution_timeout_secs"),
		Actor:                c.actor,
		Traceparent:          c.traceparent,
		IdempotencyKey:       c.delivery.Key,
	}
}
