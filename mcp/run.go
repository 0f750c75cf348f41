package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"daybook/events"
	"daybook/ledger"
)

const runJSDescription = "Run JavaScript or TypeScript in V8. With wait_secs, returns status, result (the last expression), error, heap and output " +
	"if the run ends in time; else call get_execution. Top-level await works. " +
	"Pass heap to the next run_js to keep variables and functions; without it the isolate is fresh. " +
	"The clock stops while code runs."

// The arguments of run_js, also with Options.Stateless.
var (
	codeProperty = property{name: "code", kind: text, required: true, description: "types are not checked"}

	filesProperty = property{name: "files", kind: textMap, description: "sources by path, imported as ./PATH"}

	limitProperties = []property{
		{name: "heap_memory_max_mb", kind: integer},
		{name: "execution_timeout_secs", kind: integer, min: 1, max: ledger.MaxTimeoutSecs},
	}
)

func (s *Server) runTools() []tool {
	about := s.opts.RunJSDescription
	if about == "" {
		about = runJSDescription
	}
	input := []property{
		codeProperty,
		filesProperty,
		{name: "heap", kind: text, description: "none: " + s.aboutWebAssembly()},
		{name: "logical_session_ref", kind: text, description: "replaces heap"},
	}
	input = append(input, limitProperties...)
	input = append(input,
		waitProperty,
		property{name: "tags", kind: textMap, description: "for the heap"},
		property{name: "reuse", kind: boolean, description: "return an equal earlier run"},
		property{name: "idempotency_key", kind: text, description: "same key, same execution"},
	)
	return []tool{{
		name: "run_js", title: "Run JavaScript", description: about,
		destructive: s.callsServers(), openWorld: s.callsServers(),
		input:  input,
		output: submittedSchema(),
		submit: s.submitRun, finish: s.finishRun,
	}}
}

// maxListedModules limits the WebAssembly modules that a description lists.
const maxListedModules = 20

// aboutWebAssembly returns the phrase that says which WebAssembly scripts can use.
func (s *Server) aboutWebAssembly() string {
	names := s.opts.WASMModules
	if len(names) == 0 {
		return "WebAssembly"
	}
	more := ""
	if len(names) > maxListedModules {
		names, more = names[:maxListedModules], ", ..."
	}
	return "WebAssembly, with modules " + strings.Join(names, ", ") + more
}

// submittedAnswer is the answer of run_js if the client does not wait, or if the run has not
// ended in time.
type submittedAnswer struct {
	ExecutionID string `json:"execution_id"`
	// Status is running if the client waited, else empty.
	Status   events.Status `json:"status,omitempty"`
	Warnings []string      `json:"warnings,omitempty"`
	// AlreadyTried reports an earlier equal run in the same conversation context.
	AlreadyTried *priorRun `json:"already_tried,omitempty"`
}

// submittedSchema describes both answers of run_js, submittedAnswer and fullAnswer. It
// requires only the id, the one member that both always have.
func submittedSchema() object {
	fields := []field{typedField("execution_id", "string")}
	for _, f := range executionFields()[1:] {
		fields = append(fields, optionalField(f))
	}
	return objectSchema(append(fields, optionalField(typedField(memberTried, "object")))...)
}

func (s *Server) submitRun(ctx context.Context, c caller, a arguments) (ledger.Receipt, error) {
	// A model sends an empty text only by mistake, so run_js refuses it. The ledger would take
	// it as an absent one: without its heap or session the run would lose its state, and
	// without its idempotency key it could run twice.
	for _, name := range []string{"heap", "idempotency_key", "logical_session_ref"} {
		if a.has(name) && a.text(name) == "" {
			return ledger.Receipt{}, ledger.Invalid(name, "%s must not be empty; leave it out if there is none", name)
		}
	}
	if err := checkWait(a); err != nil {
		return ledger.Receipt{}, err
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
	began := time.Now()
	before := s.runContext(ctx, c, &sub)
	if before != nil && before.Reused && !a.has("idempotency_key") && a.truth("reuse") {
		c.earlier.before = before
		s.noteReuse(ctx, c, a, before)
		return ledger.Receipt{ExecutionID: before.ExecutionID, Repeated: true}, nil
	}
	r, err := s.opts.Commands.Submit(ledger.WithRequestTime(ctx, began), sub)
	if before != nil && before.ExecutionID != r.ExecutionID {
		before.Reused = false
		c.earlier.before = before
	}
	return r, err
}

// finishRun returns a fullAnswer if the client waits and the run ends in time, and otherwise
// a submittedAnswer. A run that has not ended continues.
func (s *Server) finishRun(ctx context.Context, c caller, a arguments, r ledger.Receipt) (answer, error) {
	out := submittedAnswer{ExecutionID: r.ExecutionID, Warnings: r.Warnings, AlreadyTried: c.earlier.before}
	if !a.has(argWait) {
		return answer{value: out, seq: r.Seq}, nil
	}
	ans, err := s.awaitFullAnswer(ctx, c, r, a)
	whole, _ := ans.value.(fullAnswer)
	switch {
	case err == nil && whole.Status.Terminal():
		whole.AlreadyTried = c.earlier.before
		ans.value, ans.seq = whole, max(r.Seq, ans.seq)
		return ans, nil
	case err != nil && !errors.Is(context.Cause(ctx), errClosing):
		return answer{}, &acceptedError{r.ExecutionID, err}
	}
	out.Status = events.StatusRunning
	return answer{value: out, seq: r.Seq}, nil
}

// acceptedError is returned if the wait for an accepted run fails. The run continues.
type acceptedError struct {
	executionID string
	err         error
}

// Error names the execution and the reason.
func (e *acceptedError) Error() string {
	return fmt.Sprintf("the run was accepted as execution %s, but waiting for it failed: %v", e.executionID, e.err)
}

// Unwrap returns the reason.
func (e *acceptedError) Unwrap() error { return e.err }

// submission returns a submission for a call: with the arguments that run_js has also with
// Options.Stateless, and with the tenant, the actor, the trace context and the delivery key of
// the call.
func (s *Server) submission(c caller, a arguments) ledger.Submission {
	return ledger.Submission{
		Tenant:               s.tenant,
		Code:                 a.text("code"),
		Files:                a.textMap("files"),
		HeapMemoryMaxMB:      a.optionalInt("heap_memory_max_mb"),
		ExecutionTimeoutSecs: a.optionalInt("execution_timeout_secs"),
		Actor:                c.actor,
		Traceparent:          c.traceparent,
		IdempotencyKey:       c.delivery.Key,
	}
}
