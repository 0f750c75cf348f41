package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"daybook/events"
)

// maxInlineCallable is the maximum length in bytes of a list of callable tools that each
// started event repeats. Longer lists are stored once as a blob.
const maxInlineCallable = 2 << 10

// HostCall is a host call of a script.
type HostCall struct {
	// Number counts the calls of the execution from 1.
	Number       int
	Server, Tool string
	// Arguments is the JSON text of the arguments.
	Arguments []byte
}

// HostReturn is the answer to a host call.
type HostReturn struct {
	Number   int
	Outcome  events.HostOutcome
	Duration time.Duration
	// AnsweredAt is the time of the answer on the script's clock, in whole milliseconds.
	AnsweredAt time.Time
	// Result is the JSON text of a value, or an error message.
	Result []byte
	// Fetch and Requests describe a fetch; nil for the call of a tool. The hashes in Fetch
	// are those of the bytes: RecordReturn keys them if the content is encrypted.
	Fetch    *events.FetchRecord
	Requests []events.FetchRequest
}

// RecordedCall is a host call in the ledger.
type RecordedCall struct {
	Number       int
	Server, Tool string
	// ArgumentsSHA256 is the recorded hash. It is a keyed hash if the content of the run
	// is encrypted; see HashArguments.
	ArgumentsSHA256 string
	// Answer is nil if the answer is not recorded, or if the call was cancelled and its
	// answer was never given to the script.
	Answer *RecordedAnswer
	// Arguments is the JSON text of the arguments; nil if only its hash is recorded, or if
	// it is encrypted and the key is not available.
	Arguments *events.Body

	keyID string
	// keyedHash returns the keyed hash of a hash; nil if the hash is recorded as it is.
	keyedHash func(hash string) (string, error)
}

// HashArguments returns the hash of arguments, given as JSON text, in the form of
// ArgumentsSHA256: it differs from ArgumentsSHA256 if the call was made with other
// arguments. It returns an error if the content key is not available, because the
// arguments can then not be compared: events.ErrShredded if the key is destroyed, and an
// *Error with CodeUnavailable if this process has no keys.
func (c RecordedCall) HashArguments(arguments []byte) (string, error) {
	hash := events.Hash(arguments)
	if c.keyedHash == nil {
		return hash, nil
	}
	return c.keyedHash(hash)
}

// RecordedAnswer is the recorded answer to a host call.
type RecordedAnswer struct {
	// Position is the position of the answer. Answers reached the script in the order of
	// their positions.
	Position   uint64
	OK         bool
	AnsweredAt time.Time
	sha256     string
	body       *events.Body // nil if only the hash is recorded
	// readText returns the text of body after it has checked the hash.
	readText func(ctx context.Context) ([]byte, error)
}

// HasText reports whether the text of the answer is recorded, and not only its hash.
func (a *RecordedAnswer) HasText() bool { return a.body != nil }

// Text reads the answer. A run may have a thousand answers of many MiB each, so callers
// should read one at a time. It returns nil without an error if HasText is false.
func (a *RecordedAnswer) Text(ctx context.Context) ([]byte, error) {
	if a.body == nil {
		return nil, nil
	}
	return a.readText(ctx)
}

// RecordCall records a host call. The caller MUST NOT send the call before RecordCall
// has returned without an error. Errors are *EndedError, ErrSuperseded, and those of the
// store.
func (l *Ledger) RecordCall(ctx context.Context, r *StartedAttempt, c HostCall) error {
	req := r.Plan.Request
	body, hash, err := l.storeHostBody(ctx, req, c.Arguments)
	if err != nil {
		return err
	}
	d := &events.HostCalled{
		ExecutionID: req.ExecutionID, Attempt: r.Plan.Attempt, Number: c.Number, Server: c.Server, Tool: c.Tool,
		ArgumentsSHA256: hash, Content: events.Plain(events.HostCalledContent{Arguments: body}),
	}
	return l.appendRunEvent(ctx, r, d, fmt.Sprintf("record call %d of execution %s", c.Number, req.ExecutionID))
}

// RecordReturn records the answer to a host call. The caller MUST NOT give the answer to
// the script before RecordReturn has returned without an error. Errors are those of
// RecordCall. Cancelling ctx does not interrupt it, because the call was made.
func (l *Ledger) RecordReturn(ctx context.Context, r *StartedAttempt, a HostReturn) error {
	ctx, stop := commitContext(ctx)
	defer stop()
	req := r.Plan.Request
	body, hash, err := l.storeHostBody(ctx, req, a.Result)
	if err != nil {
		return err
	}
	fetch, err := l.keyedFetch(req.ContentKeyID(), a.Fetch)
	if err != nil {
		return err
	}
	content := events.HostReturnedContent{Result: body, Requests: a.Requests}
	if l.opts.HostCallHashes {
		content.Requests = nil
	}
	d := &events.HostReturned{
		ExecutionID: req.ExecutionID, Attempt: r.Plan.Attempt, Number: a.Number, Outcome: a.Outcome, DurationMillis: a.Duration.Milliseconds(),
		AnsweredAt: events.Instant{Time: a.AnsweredAt}, ResultSHA256: hash, Fetch: fetch, Content: events.Plain(content),
	}
	return l.appendRunEvent(ctx, r, d, fmt.Sprintf("record the answer to call %d of execution %s", a.Number, req.ExecutionID))
}

// storeHostBody returns the body to record for arguments or a result, nil if only hashes are
// recorded, and the hash to record.
func (l *Ledger) storeHostBody(ctx context.Context, req Request, text []byte) (*events.Body, string, error) {
	hash, err := l.keyedHash(req.ContentKeyID(), events.Hash(text))
	if err != nil || l.opts.HostCallHashes {
		return nil, hash, err
	}
	b, err := l.storeEncryptedBody(ctx, req.Tenant, req.ContentKeyID(), string(text))
	return &b, hash, err
}

// keyedFetch returns a record of a fetch with the hashes to record.
func (l *Ledger) keyedFetch(keyID string, f *events.FetchRecord) (*events.FetchRecord, error) {
	if f == nil {
		return nil, nil
	}
	keyed := *f
	for _, body := range []**events.FetchBody{&keyed.RequestBody, &keyed.ResponseBody} {
		if *body == nil {
			continue
		}
		hash, err := l.keyedHash(keyID, (*body).SHA256)
		if err != nil {
			return nil, err
		}
		*body = &events.FetchBody{SHA256: hash, Size: (*body).Size}
	}
	return &keyed, nil
}

// appendRunEvent appends a control event of a started attempt, unless the execution has
// ended or another attempt has started.
func (l *Ledger) appendRunEvent(ctx context.Context, r *StartedAttempt, d events.Data, doing string) error {
	req := r.Plan.Request
	e := l.newExecutionEvent(req, d)
	return l.withRunPosition(ctx, r, doing, func(h *history) error {
		if h != nil && h.terminal != nil {
			return &EndedError{Event: *h.terminal}
		}
		seq, err := l.store.Append(ctx, e, int64(r.Position))
		if err == nil {
			r.Position = seq
		}
		return err
	})
}

// HostCalls returns the recorded host calls of an execution, ordered by number, with
// their recorded answers.
func (l *Ledger) HostCalls(ctx context.Context, tenant, execution string) ([]RecordedCall, error) {
	h, err := l.history(ctx, tenant, execution)
	if err != nil {
		return nil, err
	}
	return l.loadResults(tenant, h), nil
}

// loadResults returns the calls of a history after it has set their functions that use
// the store and the keys. It reads no answers.
func (r recordReader) loadResults(tenant string, h *history) []RecordedCall {
	for i := range h.calls {
		c := &h.calls[i]
		if c.keyID != "" {
			c.keyedHash = func(hash string) (string, error) { return r.keyedHash(c.keyID, hash) }
		}
		if c.Answer != nil {
			number, keyID, answer := c.Number, c.keyID, c.Answer
			answer.readText = func(ctx context.Context) ([]byte, error) { return r.answerText(ctx, tenant, number, keyID, answer) }
		}
	}
	return h.calls
}

// answerText reads an answer, which may be a blob, and checks its hash.
func (r recordReader) answerText(ctx context.Context, tenant string, number int, keyID string, a *RecordedAnswer) ([]byte, error) {
	text := []byte(a.body.Text)
	if a.body.Blob != nil {
		var err error
		if text, err = r.store.Text(ctx, tenant, a.body.Blob.SHA256); err != nil {
			return nil, unavailable(fmt.Sprintf("read the answer to call %d", number), err)
		}
	}
	hash, err := r.keyedHash(keyID, events.Hash(text))
	if err != nil {
		return nil, err
	}
	if hash != a.sha256 {
		return nil, fmt.Errorf("the answer to call %d does not match its hash: %w", number, events.ErrDamaged)
	}
	return text, nil
}

// applyHost adds the event of a host call or its answer.
func (h *history) applyHost(e *events.Event) {
	switch d := e.Data.(type) {
	case *events.HostCalled:
		h.calls = append(h.calls, RecordedCall{Number: d.Number, Server: d.Server, Tool: d.Tool, ArgumentsSHA256: d.ArgumentsSHA256, Arguments: d.Content.Value().Arguments, keyID: events.ContentKeyID(d)})
	case *events.HostReturned:
		if d.Number < 1 || d.Number > len(h.calls) || d.Outcome == events.HostCancelled {
			return // the answer of a cancelled call was never given to the script
		}
		h.calls[d.Number-1].Answer = &RecordedAnswer{
			Position: e.Seq, OK: d.Outcome == events.HostOK, AnsweredAt: d.AnsweredAt.Time, sha256: d.ResultSHA256, body: d.Content.Value().Result,
		}
	}
}

// resumeCalls adds the calls of earlier attempts to a plan. If one of them cannot be
// answered from the ledger, it returns why the run cannot continue.
func (l *Ledger) resumeCalls(ctx context.Context, p *Plan, h *history) (why string, err error) {
	if h.first.Callable != nil {
		if p.Callable, err = l.readCallable(ctx, p.Request.Tenant, h.first.Callable); err != nil {
			return "", err
		}
		p.CallableKnown = true
	}
	if len(h.calls) == 0 {
		return "", nil
	}
	if l.opts.EngineID != "" && p.Request.Stateful && h.newest.Engine.ID != l.opts.EngineID {
		return "the engine has changed", nil
	}
	p.Calls = l.loadResults(p.Request.Tenant, h)
	for _, c := range p.Calls {
		switch {
		case c.Answer == nil:
			return fmt.Sprintf("whether call %d (%s.%s) was carried out is not known", c.Number, c.Server, c.Tool), nil
		case !c.Answer.HasText():
			return fmt.Sprintf("the answer to call %d (%s.%s) is not recorded, only its hash", c.Number, c.Server, c.Tool), nil
		}
	}
	return "", nil
}

// readCallable reads which tools the first attempt was allowed to call.
func (r recordReader) readCallable(ctx context.Context, tenant string, b *events.Body) (map[string][]string, error) {
	text := []byte(b.Text)
	if b.Blob != nil {
		var err error
		if text, err = r.store.Text(ctx, tenant, b.Blob.SHA256); err != nil {
			return nil, unavailable("read the callable tools", err)
		}
	}
	var servers map[string][]string
	if err := json.Unmarshal(text, &servers); err != nil {
		return nil, errors.Join(events.ErrDamaged, fmt.Errorf("read the callable tools: %w", err))
	}
	return servers, nil
}

// storeCallable returns the list of callable tools as a started event holds it.
func (l *Ledger) storeCallable(ctx context.Context, tenant string, servers map[string][]string) (*events.Body, error) {
	if len(servers) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(servers)
	if err != nil {
		return nil, fmt.Errorf("encode the callable tools: %w", err)
	}
	if len(text) <= maxInlineCallable {
		return &events.Body{Text: string(text)}, nil
	}
	hash, err := l.store.PutText(ctx, tenant, text)
	if err != nil {
		return nil, unavailable("store the callable tools", err)
	}
	return &events.Body{Blob: &events.BlobRef{SHA256: hash, Size: int64(len(text)), Preview: truncate(string(text), events.PreviewBytes)}}, nil
}

// endAfterCalls ends an interrupted run whose host calls cannot be answered from the
// ledger. A second call could do harm.
func (l *Ledger) endAfterCalls(ctx context.Context, r Request, why string) (events.Event, error) {
	return l.end(ctx, r, func(h *history) events.Data {
		return events.NewEnding(events.StatusFailed, events.Ending{
			ExecutionID: r.ExecutionID,
			Attempt:     h.attempt(),
			Reason:      ReasonInterrupted,
			Content:     errorContent("The runner ended while this script was at work, and the script had called other services: it is not run again, because " + why + "."),
		})
	})
}
