package contextstore

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"daybook/events"
	"daybook/internal/redact"
	"daybook/ledger"
)

// Call is a tool call to note.
type Call struct {
	Tool string
	// Arguments are the arguments of the call. Their values MUST encode to JSON.
	Arguments map[string]any
	// IsCommand is true for a tool that changes something. Its arguments may be content of
	// a session, recorded elsewhere under the key of that session.
	IsCommand bool
	CalledAt  time.Time
	// Summary describes the result in one sentence.
	Summary string
	// ResultSHA256 is the hash of the answer, or empty. Results is the number of items
	// that the answer lists, or nil.
	ResultSHA256 string
	Results      *int64
	// Durable makes Note return only after the note is recorded.
	Durable bool
}

// Resource is a resource that was read, to note.
type Resource struct {
	// ID is the resource's address. Type is "document", "database_row" or
	// "api_response".
	ID, Type string
	// Content is the text that was read.
	Content   string
	FetchedAt time.Time
}

// Limits for summaries, in characters.
const (
	maxResultSummary   = 280
	maxResourceSummary = 200
)

// CallHash returns the hash of a tool and its arguments without secrets. Equal calls
// have equal hashes.
func (s *Store) CallHash(tool string, args map[string]any) string {
	_, sha256 := s.recordedArguments(tool, args)
	return sha256
}

// Note adds a call to a context. Unless c.Durable is set, a background flush records it
// later. Under WithoutTrace, Note does nothing.
func (s *Store) Note(ctx context.Context, k Key, c Call) error {
	args, sha256 := s.recordedArguments(c.Tool, c.Arguments)
	noted := events.NotedCall{
		Tool: c.Tool, Arguments: args, ArgumentsSHA256: sha256, CalledAt: instant(c.CalledAt),
		ResultSummary: redact.Cut(c.Summary, maxResultSummary), ResultSHA256: c.ResultSHA256, Results: c.Results,
	}
	if s.opts.WithoutAnswers {
		noted.ResultSummary, noted.ResultSHA256 = "", ""
	}
	if s.opts.WithoutAnswers && c.IsCommand {
		// A guess of the arguments could be tested against their hash.
		noted.Arguments, noted.ArgumentsSHA256 = map[string]json.RawMessage{}, events.NewSessionID()
	}
	return s.note(ctx, k, c.Durable, func(p *pending) { p.addCall(noted) })
}

// NoteResource adds a resource to a context. A background flush records it later. Under
// WithoutTrace, NoteResource does nothing.
func (s *Store) NoteResource(ctx context.Context, k Key, r Resource) error {
	noted := events.NotedResource{
		ResourceID: r.ID, ResourceType: r.Type, FetchedAt: instant(r.FetchedAt), ContentSHA256: events.Hash([]byte(r.Content)), Summary: excerpt(r.Content),
	}
	if s.opts.WithoutAnswers {
		noted.Summary, noted.ContentSHA256 = "", ""
	}
	return s.note(ctx, k, false, func(p *pending) { p.addResource(noted) })
}

// excerpt returns the first maxResourceSummary characters of a text, followed by an
// ellipsis if it cut the text.
func excerpt(s string) string {
	runes := 0
	for i := range s {
		if runes == maxResourceSummary {
			return s[:i] + "…"
		}
		runes++
	}
	return s
}

func (s *Store) note(ctx context.Context, k Key, durable bool, add func(*pending)) error {
	if isTraceless(ctx) {
		return nil
	}
	ctx, stop := context.WithTimeout(ctx, callTimeout)
	defer stop()
	e, err := s.acquire(ctx, k)
	if err != nil {
		return err
	}
	defer s.release(e)
	if err := s.open(ctx, e, ""); err != nil {
		return err
	}
	add(&e.pending)
	e.pending.usedAt = s.opts.Now()
	if !durable && !e.pending.isFull() {
		return nil
	}
	return s.unavailableOrNil("note the call in its context", s.flush(ctx, e, false))
}

func (s *Store) unavailableOrNil(doing string, err error) error {
	if err == nil {
		return nil
	}
	return s.clientError(doing, err)
}

// flush records the notes of a context. With wait, it returns after they can be read.
// An event that may or may not be recorded is sent again unchanged. The NATS server
// drops the duplicate by its id, which it remembers for two minutes. The caller must
// hold e.mu.
func (s *Store) flush(ctx context.Context, e *entry, wait bool) error {
	p, again := &e.pending, e.pending.inFlight != nil
	if p.isEmpty() {
		return nil
	}
	if !again {
		if e.state == nil {
			if err := s.load(ctx, e); err != nil {
				return err
			}
		}
		keyID, done, err := s.opts.Encrypt(e.key.Tenant, "")
		if err != nil {
			s.trim(ctx, e)
			return err
		}
		noted := events.New(e.key.Tenant, s.opts.Now(), s.notedEvent(e))
		noted.EncryptWithKey = keyID
		p.setInFlight(noted, done)
	}
	seq, err := s.opts.Log.Append(ctx, *p.inFlight, -1)
	refused, ok := errors.AsType[*ledger.Error](err)
	if ok && refused.Code == ledger.CodeExhausted && refused.RetryAfter == 0 {
		// The tenant has reached its limit of contexts, and a retry does not help. Its
		// calls are answered without a context.
		s.opts.Logger.DebugContext(ctx, "dropped the notes of a context: the tenant has reached its limit of contexts", "context", e.text, "err", err)
		p.dropAll()
		return nil
	}
	if err != nil {
		if !again && (ok || errors.Is(err, events.ErrTooLarge)) {
			p.resetInFlight()
		}
		s.trim(ctx, e)
		return err
	}
	p.dropRecorded()
	e.awaitedSeq = seq
	if !p.isEmpty() { // noted after the event was built
		return s.flush(ctx, e, wait)
	}
	if !wait {
		return nil
	}
	return s.reload(ctx, e, seq)
}

// trim drops the oldest notes of a context whose notes cannot be recorded. The caller must hold e.mu.
func (s *Store) trim(ctx context.Context, e *entry) {
	if lost := e.pending.trim(); lost > 0 {
		s.opts.Logger.WarnContext(ctx, "dropped the oldest notes of a context: they cannot be recorded", "context", e.text, "notes", lost)
	}
}

// notedEvent builds the event that records the notes. The caller must hold e.mu, and e.state
// must be loaded.
func (s *Store) notedEvent(e *entry) *events.ContextNoted {
	p := &e.pending
	d := &events.ContextNoted{
		ContextRef: e.state.ContextRef, UsedAt: instant(p.usedAt),
		Content: events.Plain(events.NotedContent{Calls: slices.Clone(p.calls), Resources: slices.Clone(p.resources)}),
	}
	if e.state.Seq == 0 {
		d.Since = instant(e.fresh)
	}
	return d
}

func instant(at time.Time) events.Instant {
	return events.Instant{Time: at.UTC().Truncate(time.Millisecond)}
}
