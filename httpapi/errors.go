package httpapi

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"daybook/events"
	"daybook/internal/lifecycle/damage"
	"daybook/internal/resources/budget"
	"daybook/internal/resources/reads"
	"daybook/internal/web/access"
	"daybook/ledger"
	"daybook/projections"
	"daybook/proof"
)

// Problem is the body of every error response: a problem document (RFC 9457) that
// repeats its message as "error".
type Problem struct {
	Type   string `json:"type" doc:"Always about:blank: the status is the kind of problem." example:"about:blank"`
	Title  string `json:"title" doc:"Text of the status." example:"Not Found"`
	Status int    `json:"status" doc:"HTTP status." example:"404"`
	Detail string `json:"detail" doc:"What failed, why, and what to do."`
	Error  string `json:"error" doc:"The same text as detail."`
	Code   string `json:"code" doc:"Class of the error, for programs." example:"not_found"`
	Field  string `json:"field,omitempty" doc:"Request field that caused the error."`
	// Permanent marks a limit that does not reset.
	Permanent bool         `json:"permanent,omitempty" doc:"True for a limit that does not reset with time."`
	OK        *bool        `json:"ok,omitempty" doc:"False, if the response to success is {\"ok\":true}."`
	Errors    []FieldError `json:"errors,omitempty" doc:"One entry for each error, if there are several."`
}

// FieldError is one of several faults of a request.
type FieldError struct {
	Field string `json:"field"`
	Error string `json:"error"`
}

// failure is an error response.
type failure struct {
	problem Problem
	// retryAfter is sent as Retry-After, in seconds. 0 sends none.
	retryAfter int
	// challenge is sent as WWW-Authenticate; empty sends none.
	challenge string
}

// Codes of errors that package ledger does not define.
const (
	codeForbidden   = "forbidden"
	codeUnsupported = "unsupported_media_type"
	codeNotAllowed  = "method_not_allowed"
)

// maxRepeated bounds each text of a request that an error repeats, maxField the name of
// a field, both in bytes. A client chooses the names in its request.
const maxRepeated, maxField = 2 << 10, 200

// truncateText returns a text that an error repeats. If the text has more than most bytes,
// it is cut there and ends with three dots.
func truncateText(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

func fail(status int, code, field, format string, args ...any) *failure {
	field = truncateText(field, maxField)
	for i, a := range args {
		if text, ok := a.(string); ok {
			args[i] = truncateText(text, maxRepeated)
		}
	}
	text := format
	if len(args) > 0 {
		text = fmt.Sprintf(format, args...)
	}
	return &failure{problem: Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status,
		Detail: text, Error: text, Code: code, Field: field,
	}}
}

// invalid returns the failure for a value that breaks a rule. mistyped returns the
// failure for a wrong type or an unknown name.
func invalid(field, format string, args ...any) *failure {
	return fail(http.StatusBadRequest, string(ledger.CodeInvalid), field, format, args...)
}

func mistyped(field, format string, args ...any) *failure {
	return fail(http.StatusUnprocessableEntity, string(ledger.CodeInvalid), field, format, args...)
}

// retryWhenWritable is the Retry-After, in seconds, if nothing can be stored now but writes
// resume automatically, for example after a full disk has space again.
const retryWhenWritable = 10

func unavailable(format string, args ...any) *failure {
	f := fail(http.StatusServiceUnavailable, string(ledger.CodeUnavailable), "", format, args...)
	f.retryAfter = 1
	return f
}

// absent returns the failure for a request for a part that this server does not have. It asks
// for no retry, because the same request never succeeds.
func absent(text string) *failure {
	return fail(http.StatusServiceUnavailable, string(ledger.CodeUnavailable), "", "%s", text)
}

// budgetFailure returns the failure for exhausted memory: 503, or 413 if the same request
// can never succeed.
func budgetFailure(err error) *failure {
	text, again := err.Error(), true
	if full, ok := errors.AsType[*budget.ExhaustedError](err); ok {
		text, again = full.Error(), !full.IsPermanent()
	}
	if !again {
		return fail(http.StatusRequestEntityTooLarge, string(ledger.CodeTooLarge), "", "%s", text)
	}
	f := unavailable("%s", text)
	f.retryAfter = int(budget.RetryAfter.Seconds())
	return f
}

// The following methods are those by which huma writes a failure unchanged.

// Error returns the message.
func (f *failure) Error() string { return f.problem.Error }

// GetStatus returns the HTTP status.
func (f *failure) GetStatus() int { return f.problem.Status }

// GetHeaders returns Retry-After and WWW-Authenticate, if they are set.
func (f *failure) GetHeaders() http.Header {
	h := http.Header{}
	if f.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(f.retryAfter))
	}
	if f.challenge != "" {
		h.Set("WWW-Authenticate", f.challenge)
	}
	return h
}

// ContentType returns the media type of a problem document.
func (f *failure) ContentType(string) string { return problemType }

// MarshalJSON writes the problem document.
func (f *failure) MarshalJSON() ([]byte, error) { return json.Marshal(f.problem) }

const problemType = "application/problem+json"

// markNotOK adds the member "ok": false.
func (f *failure) markNotOK() *failure {
	no := false
	f.problem.OK = &no
	return f
}

// statusOf maps codes of package ledger to HTTP; no other function does.
func statusOf(code ledger.Code) int {
	switch code {
	case ledger.CodeInvalid:
		return http.StatusBadRequest
	case ledger.CodeTooLarge:
		return http.StatusRequestEntityTooLarge
	case ledger.CodeNotFound:
		return http.StatusNotFound
	case ledger.CodeConflict:
		return http.StatusConflict
	case ledger.CodeGone:
		return http.StatusGone
	case ledger.CodeExhausted:
		return http.StatusTooManyRequests
	case ledger.CodeUnavailable:
		return http.StatusServiceUnavailable
	case ledger.CodeInternal:
		return http.StatusInternalServerError
	default:
		return http.StatusInternalServerError
	}
}

// subject is the object of a request: the request field that names it, the kind of
// object, and its name.
type subject struct{ field, kind, name string }

func (s subject) notFound() *failure {
	text := "not found"
	if s.kind != "" {
		text = fmt.Sprintf("%s '%.80s' not found", s.kind, s.name)
	}
	return fail(http.StatusNotFound, string(ledger.CodeNotFound), s.field, "%s", text)
}

// removedFailure returns the failure for content that was removed on purpose, was lost with
// accepted damage, or has no key. The message names the event that records the removal or the
// loss, if err names that event. If err is events.ErrShredded and names no event, the key may
// be missing for another reason.
func removedFailure(err error, about subject) *failure {
	text := "the content was removed on purpose"
	if errors.Is(err, events.ErrShredded) {
		text = "the content cannot be decrypted: its content key was destroyed, or is missing"
	}
	if removed, ok := errors.AsType[*events.RemovedError](err); ok {
		text = removed.Error()
	}
	if lost, ok := errors.AsType[*events.LostError](err); ok {
		text = lost.Error()
	}
	return fail(http.StatusGone, string(ledger.CodeGone), about.field, "%s", text)
}

// toFailure maps any error to a failure. It logs internal errors, once, under a reference
// that the response names.
func (a *api) toFailure(ctx context.Context, err error, about subject) *failure {
	var f *failure
	var le *ledger.Error
	var unwritable *events.UnwritableError
	var silent *events.NoAnswerError
	var busy *reads.BusyError
	switch {
	case errors.As(err, &f):
		return f
	case budget.IsExhausted(err):
		return budgetFailure(err)
	case errors.As(err, &busy):
		return readsFailure(busy)
	case errors.As(err, &le) && le.Code != ledger.CodeInternal:
		f = fail(statusOf(le.Code), string(le.Code), le.Field, "%s", le.Message)
		if le.Code == ledger.CodeExhausted || ledger.Temporary(err) {
			f.retryAfter = max(1, int(le.RetryAfter.Seconds()))
		}
		if limit, ok := errors.AsType[*access.LimitError](err); ok {
			f.retryAfter = limit.RetryAfterSeconds()
			f.problem.Permanent = limit.Permanent
		}
		if errors.As(err, &unwritable) && unwritable.Passes {
			f.retryAfter = retryWhenWritable
		}
		return f
	case errors.Is(err, proof.ErrHashing):
		f = unavailable("%v", proof.ErrHashing)
		f.retryAfter = 1
		return f
	case errors.Is(err, events.ErrNotFound):
		return about.notFound()
	case errors.Is(err, events.ErrRemoved), errors.Is(err, events.ErrShredded):
		return removedFailure(err, about)
	case errors.As(err, &unwritable):
		f = unavailable("%s", unwritable)
		if unwritable.Passes {
			f.retryAfter = retryWhenWritable
		}
		return f
	case errors.As(err, &silent):
		return unavailable("%s", silent)
	case blobDamage(err) != nil:
		return unavailable("%s, so it is not served; %s", blobDamage(err), damage.BlobAdvice)
	case errors.Is(err, events.ErrDamaged) && a.damage != nil && a.damage.Err() != nil:
		return unavailable("the request cannot be answered from the intact part of the ledger: %v; %s", a.damage.Err(), a.damage.Advice())
	case errors.Is(err, projections.ErrBadQuery):
		// The message starts with the name of the wrong parameter.
		field, _, _ := strings.Cut(err.Error(), " ")
		if r := requestOf(ctx); r == nil || !r.query.Has(field) {
			field = ""
		}
		return invalid(field, "%s", err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return unavailable("the request was cancelled before its response was ready; send it again")
	default:
		return a.internalFailure(ctx, err)
	}
}

// blobDamage returns the error of a damaged blob in the chain of err, or nil.
func blobDamage(err error) *events.BlobDamagedError {
	damaged, _ := errors.AsType[*events.BlobDamagedError](err)
	return damaged
}

func (a *api) internalFailure(ctx context.Context, err error) *failure {
	var id [6]byte
	_, _ = rand.Read(id[:])
	ref := hex.EncodeToString(id[:])
	attrs := []slog.Attr{slog.String("ref", ref), slog.Any("error", err)}
	if le, ok := errors.AsType[*ledger.Error](err); ok && le.Err != nil {
		attrs = append(attrs, slog.Any("cause", le.Err)) // not part of its message
	}
	a.log.LogAttrs(ctx, slog.LevelError, "request failed", attrs...)
	text := "internal error; the server's log has the details under ref " + ref
	if errors.Is(err, events.ErrDamaged) {
		text = "stored data does not match its recorded hash, so it is not served; the server's log has the details under ref " + ref
	}
	return fail(http.StatusInternalServerError, string(ledger.CodeInternal), "", "%s", text)
}

// fromHuma converts an error that huma itself returned for a request for op.
func fromHuma(op *huma.Operation, err huma.StatusError) *failure {
	var model *huma.ErrorModel
	if !errors.As(err, &model) {
		return fail(err.GetStatus(), string(ledger.CodeInvalid), "", "%s", err.Error())
	}
	switch {
	case model.Status == http.StatusRequestEntityTooLarge:
		return bodyTooLarge()
	case model.Status == http.StatusRequestTimeout:
		return fail(model.Status, string(ledger.CodeInvalid), "", "the body did not arrive in time")
	case model.Status == http.StatusBadRequest && len(model.Errors) == 0:
		return invalid("", "the request has no body: send %s", wantedBody(op))
	case model.Status >= http.StatusInternalServerError:
		// Huma returns this when the body breaks off: the client has disconnected.
		return invalid("", "the body could not be read to its end")
	}
	f := mistyped("", "%s", model.Detail)
	var all []FieldError
	for _, d := range model.Errors {
		if d != nil {
			all = append(all, fieldError(op, d))
		}
	}
	if len(all) == 0 {
		return f
	}
	texts := make([]string, len(all))
	for i, e := range all {
		texts[i] = e.Error
	}
	f = mistyped(all[0].Field, "%s", strings.Join(texts, "; "))
	if len(all) > 1 {
		f.problem.Errors = all
	}
	return f
}

// Ids of operations that need a text of their own.
const (
	idSubmit  = "submit"
	idSetTags = "set-heap-tags"
)

// wantedBody describes the body that an operation takes.
func wantedBody(op *huma.Operation) string {
	switch op.OperationID {
	case idSubmit:
		return "the script, or a JSON object"
	case idSetTags:
		return `the tags as a JSON object: {"tags":{"KEY":"VALUE"}}`
	default:
		return "a JSON object; /docs describes it"
	}
}

func fieldError(op *huma.Operation, d *huma.ErrorDetail) FieldError {
	where, field, ok := strings.Cut(d.Location, ".")
	if !ok {
		where, field = "request", d.Location
	}
	value := fmt.Sprint(d.Value)
	if len(value) > 64 {
		value = value[:64] + "…"
	}
	switch d.Message {
	case "unknown query parameter":
		return FieldError{field, fmt.Sprintf("unknown query parameter %q; %s", field, knownParameters(op))}
	case "invalid integer":
		_, err := strconv.ParseInt(value, 10, 64)
		switch {
		case err == nil: // a negative number for an unsigned parameter
			return FieldError{field, fmt.Sprintf("%s must be 0 or more, not %s", field, value)}
		case errors.Is(err, strconv.ErrRange):
			return FieldError{field, fmt.Sprintf("%s is out of range: %s", field, value)}
		}
		return FieldError{field, fmt.Sprintf("%s must be an integer, not %q", field, value)}
	case "invalid boolean":
		return FieldError{field, fmt.Sprintf("%s must be true or false, not %q", field, value)}
	default:
		return FieldError{field, fmt.Sprintf("%s %s: %s", where, field, d.Message)}
	}
}

// knownParameters lists the query parameters of an operation.
func knownParameters(op *huma.Operation) string {
	var names []string
	for _, p := range op.Parameters {
		if p.In == "query" {
			names = append(names, p.Name)
		}
	}
	if len(names) == 0 {
		return "the operation has none"
	}
	return "the parameters are " + strings.Join(names, ", ")
}

// RefuseConnection answers 503 to a request on a connection above the server's limit.
func RefuseConnection(w http.ResponseWriter, r *http.Request) {
	setSecurityHeaders(w.Header())
	writeFailure(w, unavailable("this server has too many connections; try again in a second, and reuse connections"))
}

// writeFailure writes a failure as the response of a handler that does not use huma.
func writeFailure(w http.ResponseWriter, f *failure) {
	for name, values := range f.GetHeaders() {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(f.GetStatus())
	_ = json.NewEncoder(w).Encode(f.problem)
}

// logFailure logs an error that the client does not see, for example because the response
// has started. The level is WARN, or DEBUG if the client disconnects or is cut off because
// it is too slow: clients can cause any number of such lines.
func (a *api) logFailure(ctx context.Context, what string, err error, attrs ...any) {
	level := slog.LevelWarn
	if ctx.Err() != nil || isClientFault(err) {
		level = slog.LevelDebug
	}
	if errors.Is(err, errLate) {
		level = slog.LevelDebug // waitForPosition has counted it
	}
	a.log.Log(ctx, level, what, append(attrs, "error", err)...)
}

// isClientFault reports whether err is the error of a write to a client.
func isClientFault(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "write" || errors.Is(err, os.ErrDeadlineExceeded)
}
