package contextstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"daybook/events"
	"daybook/internal/redact"
	"daybook/ledger"
)

// Call is a tool call to be noted.
type Call struct {
	Tool string
	// Arguments are those of the call, any values that encode to JSON.
	Arguments map[string]any
	CalledAt  time.Time
	// Summary says in a sentence what came of it.
	Summary string
	// ResultSHA256 is the hash of the answer, Results how many things it lists; empty
	// and nil where there is none.
	ResultSHA256 string
	Results      *int64
	// Durable has the note on record before Note returns.
	Durable bool
}

// Resource is a resource read, to be noted.
type Resource struct {
	// ID is its address, Type "document", "database_row" or "api_response".
	ID, Type string
	// Content is what was read.
	Content   string
	FetchedAt time.Time
}

// Bounds of what is kept of results and resources, in characters.
const (
	maxResultSummary   = 280
	maxResourceSummary = 200
)

// CallHash is the hash of a tool and arguments, equal for equal calls.
func (s *Store) CallHash(tool string, args map[string]any) string {
	_, sha256 := s.arguments(tool, args)
	return sha256
}

// Note adds a call to a context. Under WithoutTrace it does nothing.
func (s *Store) Note(ctx context.Context, k Key, c Call) error {
	args, sha256 := s.arguments(c.Tool, c.Arguments)
	noted := events.NotedCall{
		Tool: c.Tool, Arguments: args, ArgumentsSHA256: sha256, CalledAt: instant(c.CalledAt),
		ResultSummary: redact.Cut(c.Summary, maxResultSummary), ResultSHA256: c.ResultSHA256, Results: c.Results,
	}
	if s.opts.WithoutAnswers {
		noted.ResultSummary, noted.ResultSHA256 = "", ""
	}
	return s.note(ctx, k, c.Durable, func(p *pending) { p.call(noted) })
}

// NoteResource adds a resource to a context. Under WithoutTrace it does nothing.
func (s *Store) NoteResource(ctx context.Context, k Key, r Resource) error {
	noted := events.NotedResource{
		ResourceID: r.ID, ResourceType: r.Type, FetchedAt: instant(r.FetchedAt), ContentSHA256: events.Hash([]byte(r.Content)), Summary: beginning(r.Content),
	}
	if s.opts.WithoutAnswers {
		noted.Summary, noted.ContentSHA256 = "", ""
	}
	return s.note(ctx, k, false, func(p *pending) { p.resource(noted) })
}

// beginning is the first part of a text, and a sign where there is more.
func beginning(s string) string {
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
	if traceless(ctx) {
		return nil
	}
	ctx, stop := context.WithTimeout(ctx, answerWait)
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
	if !durable && !e.pending.full() {
		return nil
	}
	return s.unavailableOrNil("note the call in its context", s.flush(ctx, e, false))
}

func (s *Store) unavailableOrNil(doing string, err error) error {
	if err == nil {
		return nil
	}
	return s.unavailable(doing, err)
}

// flush records what was noted in a context; with wait it can be read then. An event
// that may be recorded or not is tried again as it is: it is recorded once, unless the
// server has forgotten its id, after two minutes. e.mu is held.
func (s *Store) flush(ctx context.Context, e *entry, wait bool) error {
	p, again := &e.pending, e.pending.tried != nil
	if p.empty() {
		return nil
	}
	if !again {
		if e.state == nil {
			if err := s.load(ctx, e); err != nil {
				return err
			}
		}
		p.try(events.New(e.key.Tenant, s.opts.Now(), s.notes(e)))
	}
	seq, err := s.opts.Log.Append(ctx, *p.tried, -1)
	refused, ok := errors.AsType[*ledger.Error](err)
	if ok && refused.Code == ledger.CodeExhausted && refused.RetryAfter == 0 {
		// The tenant has no space for another context, and waiting does not help. Its
		// calls are answered without one.
		s.opts.Logger.DebugContext(ctx, "forgot what was noted in a context: the tenant has too many contexts", "context", e.text, "err", err)
		p.done()
		return nil
	}
	if err != nil {
		if !again && (ok || errors.Is(err, events.ErrTooLarge)) {
			p.refused()
		}
		if lost := p.trim(); lost > 0 {
			s.opts.Logger.WarnContext(ctx, "forgot what was noted in a context: it cannot be recorded", "context", e.text, "notes", lost)
		}
		return err
	}
	p.recorded()
	e.recorded = seq
	if !p.empty() { // it was noted after the event
		return s.flush(ctx, e, wait)
	}
	if !wait {
		return nil
	}
	return s.reload(ctx, e, seq)
}

// notes is the content of an event that records what was noted. e.mu is held, and the
// state is loaded.
func (s *Store) notes(e *entry) *events.ContextNoted {
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
