package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"daybook/events"
)

// maxInlineCallable is the longest list of what a script may call that each start
// repeats, in bytes. Longer ones are stored once.
const maxInlineCallable = 2 << 10

// HostCall is a call that a script makes.
type HostCall struct {
	// Number counts the calls of the execution from 1.
	Number       int
	Server, Tool string
	// Arguments is their JSON text.
	Arguments []byte
}

// HostReturn is the answer to a call.
type HostReturn struct {
	Number   int
	Outcome  events.HostOutcome
	Duration time.Duration
	// AnsweredAt is the script's time of the answer, in whole milliseconds.
	AnsweredAt time.Time
	// Result is a value's JSON text, or a message.
	Result []byte
}

// RecordedCall is a call on record.
type RecordedCall struct {
	Number       int
	Server, Tool string
	// ArgumentsSHA256 is the hash as it is recorded: for a run whose content is
	// encrypted it is hidden, see Made.
	ArgumentsSHA256 string
	// Answer is nil for a call whose answer is not on record, or was never to
	// reach the script.
	Answer *RecordedAnswer

	keyID string
	// hide makes of a hash what is recorded of it; nil leaves it as it is.
	hide func(hash string) (string, error)
}

// MatchesArguments reports whether the call was made with the arguments, their JSON text.
func (c RecordedCall) MatchesArguments(arguments []byte) bool {
	hash := events.Hash(arguments)
	if c.hide != nil {
		var err error
		if hash, err = c.hide(hash); err != nil {
			return false
		}
	}
	return hash == c.ArgumentsSHA256
}

// RecordedAnswer is the answer on record to a call.
type RecordedAnswer struct {
	// Position is where it is on record: answers reached the script in this order.
	Position   uint64
	OK         bool
	AnsweredAt time.Time
	sha256     string
	body       *events.Body // nil when only its hash is recorded
	// read returns the text of body after checking its hash.
	read func(ctx context.Context) ([]byte, error)
}

// HasText reports whether more than the hash of the answer is recorded.
func (a *RecordedAnswer) HasText() bool { return a.body != nil }

// Text reads the answer. A run may have a thousand answers of many MiB each, so the
// caller reads them one at a time. It is nil without an error when HasText is false.
func (a *RecordedAnswer) Text(ctx context.Context) ([]byte, error) {
	if a.body == nil {
		return nil, nil
	}
	return a.read(ctx)
}

// RecordCall records that the script calls something. The call may leave once it
// returns. *EndedError and ErrSuperseded mean that it must not.
func (l *Ledger) RecordCall(ctx context.Context, r *StartedAttempt, c HostCall) error {
	req := r.Plan.Request
	body, hash, err := l.hostBody(ctx, req, c.Arguments)
	if err != nil {
		return err
	}
	d := &events.HostCalled{
		ExecutionID: req.ExecutionID, Attempt: r.Plan.Attempt, Number: c.Number, Server: c.Server, Tool: c.Tool,
		ArgumentsSHA256: hash, Content: events.Plain(events.HostCalledContent{Arguments: body}),
	}
	return l.recordHost(ctx, r, d, fmt.Sprintf("record call %d of execution %s", c.Number, req.ExecutionID))
}

// RecordReturn records the answer to a call. The script may have it once it
// returns. Errors are those of RecordCall. It is recorded even if ctx ends
// meanwhile: the call was made.
func (l *Ledger) RecordReturn(ctx context.Context, r *StartedAttempt, a HostReturn) error {
	ctx, stop := commitContext(ctx)
	defer stop()
	req := r.Plan.Request
	body, hash, err := l.hostBody(ctx, req, a.Result)
	if err != nil {
		return err
	}
	d := &events.HostReturned{
		ExecutionID: req.ExecutionID, Attempt: r.Plan.Attempt, Number: a.Number, Outcome: a.Outcome, DurationMillis: a.Duration.Milliseconds(),
		AnsweredAt: events.Instant{Time: a.AnsweredAt}, ResultSHA256: hash, Content: events.Plain(events.HostReturnedContent{Result: body}),
	}
	return l.recordHost(ctx, r, d, fmt.Sprintf("record the answer to call %d of execution %s", a.Number, req.ExecutionID))
}

// hostBody is what is kept of arguments or a result, and the hash that is
// recorded of them.
func (l *Ledger) hostBody(ctx context.Context, req Request, text []byte) (*events.Body, string, error) {
	hash, err := l.keyedHash(req.ContentKeyID(), events.Hash(text))
	if err != nil || l.opts.HostCallHashes {
		return nil, hash, err
	}
	b, err := l.storeEncryptedBody(ctx, req.Tenant, req.ContentKeyID(), string(text))
	return &b, hash, err
}

func (l *Ledger) recordHost(ctx context.Context, r *StartedAttempt, d events.Data, doing string) error {
	req := r.Plan.Request
	e := l.executionEvent(req, d)
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

// HostCalls returns the calls of an execution on record, by number, with their
// answers where these are.
func (l *Ledger) HostCalls(ctx context.Context, tenant, execution string) ([]RecordedCall, error) {
	h, err := l.history(ctx, tenant, execution)
	if err != nil {
		return nil, err
	}
	return l.loadResults(tenant, h), nil
}

// loadResults prepares the calls of a history for readers.
func (l *Ledger) loadResults(tenant string, h *history) []RecordedCall {
	for i := range h.calls {
		c := &h.calls[i]
		if c.keyID != "" {
			c.hide = func(hash string) (string, error) { return l.keyedHash(c.keyID, hash) }
		}
		if c.Answer != nil {
			number, keyID, answer := c.Number, c.keyID, c.Answer
			answer.read = func(ctx context.Context) ([]byte, error) { return l.answerText(ctx, tenant, number, keyID, answer) }
		}
	}
	return h.calls
}

// answerText reads an answer, which may be stored apart, and checks its hash.
func (l *Ledger) answerText(ctx context.Context, tenant string, number int, keyID string, a *RecordedAnswer) ([]byte, error) {
	text := []byte(a.body.Text)
	if a.body.Blob != nil {
		var err error
		if text, err = l.store.Text(ctx, tenant, a.body.Blob.SHA256); err != nil {
			return nil, unavailable(fmt.Sprintf("read the answer to call %d", number), err)
		}
	}
	hash, err := l.keyedHash(keyID, events.Hash(text))
	if err != nil {
		return nil, err
	}
	if hash != a.sha256 {
		return nil, fmt.Errorf("the answer to call %d is not what its hash says: %w", number, events.ErrDamaged)
	}
	return text, nil
}

// applyHost takes up what an event says of a call.
func (h *history) applyHost(e *events.Event) {
	switch d := e.Data.(type) {
	case *events.HostCalled:
		h.calls = append(h.calls, RecordedCall{Number: d.Number, Server: d.Server, Tool: d.Tool, ArgumentsSHA256: d.ArgumentsSHA256, keyID: events.ContentKeyID(d)})
	case *events.HostReturned:
		if d.Number < 1 || d.Number > len(h.calls) || d.Outcome == events.HostCancelled {
			return // a call that was given up never got its answer
		}
		h.calls[d.Number-1].Answer = &RecordedAnswer{
			Position: e.Seq, OK: d.Outcome == events.HostOK, AnsweredAt: d.AnsweredAt.Time, sha256: d.ResultSHA256, body: d.Content.Value().Result,
		}
	}
}

// resumeCalls gives a plan what earlier attempts called, if all of it can be fed
// back; otherwise it says why the run cannot go on.
func (l *Ledger) resumeCalls(ctx context.Context, p *Plan, h *history) (why string, err error) {
	if h.first.Callable != nil {
		if p.Callable, err = l.callable(ctx, p.Request.Tenant, h.first.Callable); err != nil {
			return "", err
		}
		p.CallableKnown = true
	}
	if len(h.calls) == 0 {
		return "", nil
	}
	if l.opts.EngineID != "" && p.Request.Stateful && h.newest.Engine.ID != l.opts.EngineID {
		return "the engine is another one now", nil
	}
	p.Calls = l.loadResults(p.Request.Tenant, h)
	for _, c := range p.Calls {
		switch {
		case c.Answer == nil:
			return fmt.Sprintf("whether call %d (%s.%s) was carried out is not known", c.Number, c.Server, c.Tool), nil
		case !c.Answer.HasText():
			return fmt.Sprintf("the answer to call %d (%s.%s) is not on record, only its hash", c.Number, c.Server, c.Tool), nil
		}
	}
	return "", nil
}

// callable reads what the first attempt was allowed to call.
func (l *Ledger) callable(ctx context.Context, tenant string, b *events.Body) (map[string][]string, error) {
	text := []byte(b.Text)
	if b.Blob != nil {
		var err error
		if text, err = l.store.Text(ctx, tenant, b.Blob.SHA256); err != nil {
			return nil, unavailable("read what the script may call", err)
		}
	}
	var servers map[string][]string
	if err := json.Unmarshal(text, &servers); err != nil {
		return nil, errors.Join(events.ErrDamaged, fmt.Errorf("read what the script may call: %w", err))
	}
	return servers, nil
}

// callableBody is what a start says of what the script may call.
func (l *Ledger) callableBody(ctx context.Context, tenant string, servers map[string][]string) (*events.Body, error) {
	if len(servers) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(servers)
	if err != nil {
		return nil, fmt.Errorf("write down what the script may call: %w", err)
	}
	if len(text) <= maxInlineCallable {
		return &events.Body{Text: string(text)}, nil
	}
	hash, err := l.store.PutText(ctx, tenant, text)
	if err != nil {
		return nil, unavailable("store what the script may call", err)
	}
	return &events.Body{Blob: &events.BlobRef{SHA256: hash, Size: int64(len(text)), Preview: truncate(string(text), events.PreviewBytes)}}, nil
}

// endAfterCalls ends a run that was interrupted after it had called something
// outside, and that cannot be fed what it got: doing it again might do harm.
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
