package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"daybook/events"
)

// Submit records the request of a run and returns its id. When it returns, the request
// is on disk, and the run will end in exactly one terminal event. The code is not
// parsed: a syntax error is a failed execution.
//
// Errors are *Error. CodeInvalid and CodeTooLarge name the field and the rule, and
// nothing is recorded. CodeNotFound: a required heap is not recorded. CodeConflict: the
// idempotency key was used for another request, or another engine made the heap and it cannot be migrated.
// CodeGone: the heap was collected. CodeExhausted: a quota or limit is reached, or other
// writers were always first. CodeUnavailable: the request may or may not be recorded. To
// repeat a submission with its idempotency key is always safe.
func (l *Ledger) Submit(ctx context.Context, s Submission) (_ Receipt, err error) {
	ctx, answered := l.withAnswerDeadline(ctx)
	defer answered(&err)
	run, err := l.validate(s)
	if err != nil {
		return Receipt{}, err
	}
	return l.submit(ctx, run)
}

// validSubmission is a valid Submission with the payload of its requested event.
type validSubmission struct {
	Submission
	req *events.ExecutionRequested
	// limitWarnings describe how the limits differ from the requested ones.
	limitWarnings []string
	// asked is the fingerprint of the submission.
	asked string
}

// validate checks a submission and assigns the execution id. It reads nothing from the
// ledger.
func (l *Ledger) validate(s Submission) (validSubmission, error) {
	if s.FileName == "" {
		s.FileName = defaultFileName
	}
	stateful := !l.opts.Stateless && s.Heap != HeapNone
	if s.Heap == HeapNone {
		if err := checkWithoutHeap(s); err != nil {
			return validSubmission{}, err
		}
		s.Heap = ""
	}
	if err := l.checkSubmission(s); err != nil {
		return validSubmission{}, err
	}
	limits, warnings, err := l.resolveLimits(s)
	if err != nil {
		return validSubmission{}, err
	}
	req := &events.ExecutionRequested{
		Pool:         l.opts.Pool,
		SourceSHA256: events.Hash([]byte(s.Code)),
		FileName:     s.FileName,
		Stateful:     stateful,
		Heap:         s.Heap,
		Limits:       limits,
		Session:      s.Session,
		Idempotent:   s.IdempotencyKey != "",
		Interactive:  s.Interactive,
		Actor:        sanitizeActor(s.Actor),
	}
	req.RequestSHA256 = fingerprint(s, req.SourceSHA256, stateful)
	if s.Session != "" {
		req.SessionID = events.SessionID(s.Tenant, s.Session)
	}
	if req.Idempotent {
		req.ExecutionID = events.DerivedID(s.Tenant, s.IdempotencyKey)
	} else {
		req.ExecutionID = events.NewID(l.opts.Now())
	}
	return validSubmission{Submission: s, req: req, limitWarnings: warnings, asked: req.RequestSHA256}, nil
}

// submit returns the first receipt for a repeated submission. It admits and records any
// other submission.
func (l *Ledger) submit(ctx context.Context, run validSubmission) (Receipt, error) {
	r, err := l.lookUp(ctx, run)
	if !errors.Is(err, events.ErrNotFound) {
		return r, err
	}
	return l.withAdmission(ctx, "submit the run", &run.Submission, func() (Receipt, error) { return l.record(ctx, run) })
}

// lookUp returns the receipt of the execution with the submission's idempotency key, or
// events.ErrNotFound.
func (l *Ledger) lookUp(ctx context.Context, run validSubmission) (Receipt, error) {
	if !run.req.Idempotent {
		return Receipt{}, events.ErrNotFound
	}
	return l.repeatedReceipt(ctx, run.Tenant, run.req, run.asked)
}

// withAdmission calls Options.Admit for a new submission, calls do, which records it, and
// reports the position of the event to Admit. do MUST read s only when it is called,
// because the admission may have changed s.
func (l *Ledger) withAdmission(ctx context.Context, doing string, s *Submission, do func() (Receipt, error)) (r Receipt, err error) {
	if l.opts.Admit == nil {
		return do()
	}
	done, err := l.opts.Admit(ctx, s)
	if err != nil {
		return Receipt{}, admissionError(doing, err)
	}
	var seq uint64
	defer func() { done(seq) }() // also when do panics
	if r, err = do(); err == nil && !r.Repeated {
		seq = r.Seq
	}
	return r, err
}

func admissionError(doing string, err error) error {
	if _, answer := errors.AsType[*Error](err); answer {
		return err
	}
	if _, unwritable := errors.AsType[*events.UnwritableError](err); unwritable {
		return unavailable(doing, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// record appends the request of an admitted run.
func (l *Ledger) record(ctx context.Context, run validSubmission) (Receipt, error) {
	s, req := run.Submission, run.req
	unknown, err := l.checkInputHeap(ctx, s.Tenant, s.Heap, s.RequireHeap)
	if err != nil {
		return Receipt{}, err
	}
	req.Context = s.Context
	req.Warnings = slices.Concat(s.Warnings, run.limitWarnings, unknown)
	keyID, done, err := l.encryptRequest(s, req)
	if err != nil {
		return Receipt{}, err
	}
	defer done()
	source, err := l.storeEncryptedBody(ctx, s.Tenant, keyID, s.Code)
	if err != nil {
		return Receipt{}, err
	}
	globals, err := l.globalsBody(ctx, s.Tenant, keyID, encodeGlobals(s.Globals), source)
	if err != nil {
		return Receipt{}, err
	}
	content := events.RequestedContent{Source: source, Tags: s.Tags, Globals: globals}
	if files := encodeFiles(s.Files); files != "" {
		// The event has no space for them beside the source.
		body, err := l.storeBlob(ctx, s.Tenant, keyID, files)
		if err != nil {
			return Receipt{}, err
		}
		content.Files = &body
	}
	if keyID != "" {
		content.FileName = s.FileName
	}
	req.Content = events.Plain(content)
	if s.LogicalSession != "" {
		unlock, err := l.sessions.lock(ctx, sessionLock(s.Tenant, s.LogicalSession))
		if err != nil {
			return Receipt{}, lockError("submit the run", err)
		}
		defer unlock()
		s.Traceparent = sessionTrace(s, req.ExecutionID)
		var left time.Duration
		if req.Turn, left, err = l.queueTurn(ctx, s, req.ExecutionID); err != nil {
			return Receipt{}, err
		}
		// The turn is recorded, and the session waits for the request.
		var stop context.CancelFunc
		ctx, stop = commitContext(ctx)
		defer stop()
		if left > 0 { // a later request would be accepted although its turn is skipped
			ctx, stop = context.WithTimeout(ctx, left)
			defer stop()
		}
	}

	e := l.newEvent(s.Tenant, validTraceparent(s.Traceparent), req)
	e.EncryptWithKey = keyID
	seq, err := l.store.Append(ctx, e, 0)
	switch {
	case errors.Is(err, events.ErrConflict) && req.Idempotent:
		r, err := l.repeatedReceipt(ctx, s.Tenant, req, run.asked)
		if errors.Is(err, events.ErrNotFound) {
			err = unavailable("submit the run", err)
		}
		return r, err
	case err != nil:
		return Receipt{}, unavailable("submit the run", err)
	}
	return Receipt{ExecutionID: req.ExecutionID, Seq: seq, Warnings: req.Warnings}, nil
}

// sessionTrace returns the trace context of a run in a logical session: that of the
// client, or one whose trace id is derived from the session. A collector then shows the
// runs of a session together, from any server.
func sessionTrace(s Submission, execution string) string {
	if own := validTraceparent(s.Traceparent); own != "" {
		return own
	}
	trace := events.Hash([]byte("daybook trace\x00" + s.Tenant + "\x00" + s.LogicalSession))
	span := events.Hash([]byte("daybook span\x00" + execution))
	return "00-" + trace[:32] + "-" + span[:16] + "-01"
}

// CheckScript returns an *Error for a source or a file name that Submit refuses. An empty name
// is valid.
func CheckScript(code, fileName string) error {
	if err := checkCode(code); err != nil || fileName == "" {
		return err
	}
	return checkVisible("file_name", "file_name", fileName, maxFileNameChars)
}

func (l *Ledger) checkSubmission(s Submission) error {
	checks := []error{checkTenant(s.Tenant), checkCode(s.Code), checkVisible("file_name", "file_name", s.FileName, maxFileNameChars)}
	if l.opts.Stateless {
		checks = append(checks, checkStateless(s))
	}
	if s.Heap != "" {
		checks = append(checks, checkHeap(s.Heap))
	}
	if s.Session != "" {
		checks = append(checks, checkVisible("session", "session", s.Session, maxSessionChars))
	}
	if s.LogicalSession != "" {
		checks = append(checks, checkTurnSubmission(s))
	}
	checks = append(checks, checkTags(s.Tags), checkGlobals(s.Globals), checkFiles(s.Files), checkIdempotencyKey(s.IdempotencyKey), checkContext(s.Context))
	for _, err := range checks {
		if err != nil {
			return err
		}
	}
	return nil
}

// checkTurnSubmission checks a submission with a turn in a logical session.
func checkTurnSubmission(s Submission) error {
	if s.Heap != "" {
		return Invalid("heap", "heap cannot be given together with a logical session: the run starts from the session head; leave out one of the two")
	}
	return checkSessionID("logical_session", s.LogicalSession)
}

// checkStateless returns an error for the first argument that needs heaps.
func checkStateless(s Submission) error {
	var field string
	switch {
	case s.Heap != "":
		field = "heap"
	case s.Session != "":
		field = "session"
	case s.LogicalSession != "":
		field = "logical_session"
	case s.Tags != nil:
		field = "tags"
	default:
		return nil
	}
	return Invalid(field, "%s is not available: this server runs in stateless mode, where no heap is kept; leave it out", field)
}

// checkWithoutHeap returns an error for an argument that HeapNone cannot be combined with.
func checkWithoutHeap(s Submission) error {
	switch {
	case s.LogicalSession != "":
		return Invalid("heap", `heap "none" cannot be given together with a session that keeps state: each of its runs starts from the heap that the one before left; leave out heap, or run the script outside of the session`)
	case s.Tags != nil:
		return Invalid("tags", `tags cannot be given together with heap "none": the run leaves no heap to tag; leave out one of the two`)
	}
	return nil
}

// checkInputHeap refuses a heap that cannot be restored. If the heap is not recorded and
// not required, it returns a warning, and the run starts from a fresh isolate.
func (l *Ledger) checkInputHeap(ctx context.Context, tenant, heap string, required bool) (warnings []string, err error) {
	if heap == "" {
		return nil, nil
	}
	info, err := l.store.HeapInfo(ctx, tenant, heap)
	switch {
	case errors.Is(err, events.ErrNotFound) && required:
		return nil, &Error{Code: CodeNotFound, Field: "heap", Message: fmt.Sprintf(
			"heap %s is not recorded here and require_heap is set; check the key, or leave out require_heap to start from a fresh isolate", heap)}
	case errors.Is(err, events.ErrNotFound):
		return []string{fmt.Sprintf("heap %s is not on record; starting from a fresh isolate", heap)}, nil
	case errors.Is(err, events.ErrRemoved):
		return nil, l.ExplainRemoval(ctx, tenant, heap)
	case isBlobDamaged(err):
		return nil, &Error{Code: CodeConflict, Field: "heap", Err: err, Message: fmt.Sprintf(
			"heap %s is damaged in the blob store and cannot be restored; run the script that made it again, which stores it again if the run leaves the same heap, continue from another heap, or start without one", heap)}
	case err != nil:
		return nil, unavailable("look up heap "+heap, err)
	}
	return nil, l.checkEngine(ctx, tenant, info)
}

// repeatedReceipt returns the first receipt for a submission whose execution id is recorded, or
// a conflict if the requests differ. The error is events.ErrNotFound if the id is
// unused.
func (l *Ledger) repeatedReceipt(ctx context.Context, tenant string, req *events.ExecutionRequested, fingerprint string) (Receipt, error) {
	past, err := l.store.Execution(ctx, tenant, req.ExecutionID)
	if err != nil {
		return Receipt{}, unavailable("look up the idempotency key", err)
	}
	if len(past) == 0 {
		return Receipt{}, events.ErrNotFound
	}
	first, ok := past[0].Data.(*events.ExecutionRequested)
	if !ok {
		return Receipt{}, newerEventError(req.ExecutionID, past[0])
	}
	if fingerprint, err = l.keyedHash(events.ContentKeyID(first), fingerprint); err != nil {
		return Receipt{}, err
	}
	if first.RequestSHA256 != fingerprint {
		return Receipt{}, &Error{Code: CodeConflict, Field: "idempotency_key", Message: fmt.Sprintf(
			"idempotency_key was already used for another request, execution %s; use a new key for a new request", req.ExecutionID)}
	}
	return Receipt{ExecutionID: req.ExecutionID, Seq: past[0].Seq, Repeated: true, Warnings: first.Warnings}, nil
}

// RequestSHA256 returns the fingerprint of a submission, as its requested event holds it on
// a server that keeps heaps. Equal submissions have equal fingerprints, regardless of
// client and time.
func RequestSHA256(s Submission) string {
	s.FileName = cmp.Or(s.FileName, defaultFileName)
	stateful := s.Heap != HeapNone
	if !stateful {
		s.Heap = ""
	}
	return fingerprint(s, events.Hash([]byte(s.Code)), stateful)
}

// fingerprint returns the hash of the arguments of a submission. Client, time and the
// server's defaults are not included, so that a request keeps its fingerprint after a
// change of configuration. The form is part of the ledger's format and MUST NOT change:
// recorded hashes are compared with it.
func fingerprint(s Submission, source string, stateful bool) string {
	globals := encodeGlobals(s.Globals)
	if globals != "" {
		globals = events.Hash([]byte(globals))
	}
	files := encodeFiles(s.Files)
	if files != "" {
		files = events.Hash([]byte(files))
	}
	b, err := json.Marshal(struct {
		Form     string            `json:"form"`
		Source   string            `json:"source_sha256"`
		FileName string            `json:"file_name"`
		Stateful bool              `json:"stateful"`
		Heap     string            `json:"heap"`
		Session  string            `json:"session"`
		MemoryMB *int              `json:"heap_memory_max_mb"`
		Timeout  *int              `json:"execution_timeout_secs"`
		Tags     map[string]string `json:"tags"`
		Logical  string            `json:"logical_session,omitempty"`
		Globals  string            `json:"globals_sha256,omitempty"`
		Files    string            `json:"files_sha256,omitempty"`
	}{"daybook request 1", source, s.FileName, stateful, s.Heap, s.Session, s.HeapMemoryMaxMB, s.ExecutionTimeoutSecs, s.Tags, s.LogicalSession, globals, files})
	if err != nil {
		panic(err) // strings, ints and maps of strings always encode
	}
	return events.Hash(b)
}
