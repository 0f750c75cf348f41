package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"daybook/events"
)

// maxIntentBytes is the maximum length of an intent in bytes.
const maxIntentBytes = 512

// Opening holds the arguments of OpenSession.
type Opening struct {
	Tenant string
	// Kind is the kind of the session; empty means events.SessionLogical.
	Kind events.SessionKind
	// Intent permanently identifies a session of the tenant, byte for byte: the same text
	// always opens the same session. It has 1 to 512 bytes. It may be empty only for a
	// kind other than events.SessionLogical; the session is then a new one.
	Intent string
	// Parent is the session that the new one is forked from, or empty.
	Parent string
	// Head is the heap that the first turn starts from; empty for a fresh isolate.
	Head        string
	Actor       events.Actor
	Traceparent string
}

// OpenResult is the result of OpenSession.
type OpenResult struct {
	// SessionID is the session's canonical id.
	SessionID string
	// New reports whether the call opened the session.
	New bool
	// Seq is the position of the event that opened the session; set only if New is true.
	Seq uint64
}

// OpenSession opens a session, or finds the one with the same intent. Of several
// concurrent calls with one intent, in any number of processes, exactly one opens the
// session. Errors are CodeInvalid, naming the field, CodeExhausted and CodeUnavailable.
// To repeat a call with an intent is always safe.
func (l *Ledger) OpenSession(ctx context.Context, o Opening) (_ OpenResult, err error) {
	ctx, answered := l.withAnswerDeadline(ctx)
	defer answered(&err)
	if o.Kind == "" {
		o.Kind = events.SessionLogical
	}
	if err := l.checkOpening(o); err != nil {
		return OpenResult{}, err
	}
	id := events.NewSessionID()
	if o.Intent != "" {
		var err error
		if id, err = l.sessionForIntent(ctx, o); err != nil {
			return OpenResult{}, err
		}
		// The intent is recorded, and no limit counts an intent without a session.
		// Therefore the session is opened even if the client has disconnected.
		var stop context.CancelFunc
		ctx, stop = commitContext(ctx)
		defer stop()
		switch _, err := l.store.Last(ctx, events.LogicalSubject(o.Tenant, id)); {
		case err == nil:
			return OpenResult{SessionID: id}, nil
		case !errors.Is(err, events.ErrNotFound):
			return OpenResult{}, unavailable("open the session", err)
		}
	}
	d := &events.SessionOpened{
		SessionID: id, Kind: o.Kind, Content: events.Plain(events.SessionContent{Intent: o.Intent}),
		Actor: sanitizeActor(o.Actor), Parent: o.Parent, Head: o.Head,
	}
	e := l.newEvent(o.Tenant, validTraceparent(o.Traceparent), d)
	if o.Intent != "" {
		keyID, done, err := l.useContentKey(o.Tenant, id)
		if err != nil {
			return OpenResult{}, err
		}
		defer done()
		e.EncryptWithKey = keyID
		if d.IntentSHA256, err = l.keyedHash(keyID, events.Hash([]byte(o.Intent))); err != nil {
			return OpenResult{}, err
		}
	}
	seq, err := l.store.Append(ctx, e, 0)
	switch {
	case errors.Is(err, events.ErrConflict):
		return OpenResult{SessionID: id}, nil // another opening with this intent was first
	case err != nil:
		return OpenResult{}, unavailable("open the session", err)
	}
	return OpenResult{SessionID: id, New: true, Seq: seq}, nil
}

func (l *Ledger) checkOpening(o Opening) error {
	if err := checkTenant(o.Tenant); err != nil {
		return err
	}
	if l.opts.Stateless {
		return Invalid("intent", "sessions are not available: this server runs in stateless mode, where no heap is kept")
	}
	if o.Kind != events.SessionLogical && o.Kind != events.SessionACP {
		return Invalid("kind", `kind must be "%s" or "%s", not "%s"`, events.SessionLogical, events.SessionACP, Excerpt(string(o.Kind)))
	}
	if o.Intent != "" || o.Kind == events.SessionLogical {
		if err := CheckIntent(o.Intent); err != nil {
			return err
		}
	}
	if o.Parent != "" {
		if err := checkSessionID("parent", o.Parent); err != nil {
			return err
		}
	}
	if o.Head != "" {
		return checkHeap(o.Head)
	}
	return nil
}

// CheckIntent returns a CodeInvalid *Error if a text cannot be an intent, which is 1 to
// 512 bytes of valid UTF-8. The text is neither trimmed nor case-folded.
func CheckIntent(intent string) error {
	switch {
	case intent == "":
		return Invalid("intent", "intent must not be empty: choose a text that identifies the task and does not change")
	case len(intent) > maxIntentBytes:
		return Invalid("intent", "intent must be 1 to %d bytes, not %d", maxIntentBytes, len(intent))
	case !utf8.ValidString(intent):
		return Invalid("intent", "intent must be valid UTF-8")
	}
	return nil
}

func checkSessionID(field, id string) error {
	if !events.ValidHash(id) {
		return Invalid(field, `%s must be the id of a session, 64 lowercase hex characters, not "%s"`, field, Excerpt(id))
	}
	return nil
}

// sessionForIntent returns the session id of an intent. The first call for an intent
// chooses the id.
func (l *Ledger) sessionForIntent(ctx context.Context, o Opening) (id string, err error) {
	keys, err := l.intentKeys(o.Tenant, o.Intent)
	if err != nil {
		return "", err
	}
	err = retry(ctx, "look up the intent", func() error {
		for _, key := range keys {
			e, err := l.store.Last(ctx, events.IntentSubject(o.Tenant, key))
			switch {
			case err == nil:
				d, ok := e.Data.(*events.SessionNamed)
				if !ok {
					return newerSessionError(key, e)
				}
				id = d.SessionID
				return nil
			case !errors.Is(err, events.ErrNotFound):
				return err
			}
		}
		id = events.NewSessionID()
		_, err = l.store.Append(ctx, l.newEvent(o.Tenant, validTraceparent(o.Traceparent), &events.SessionNamed{IntentKey: keys[0], SessionID: id}), 0)
		return err
	})
	return id, err
}

// logicalSession is the state of a logical or ACP session, derived from its events.
type logicalSession struct {
	ID       string
	Kind     events.SessionKind
	Intent   string
	OpenedAt time.Time
	Actor    events.Actor
	Parent   string
	// Next is where the next turn continues.
	Next events.SessionNext
	// Revision counts expansions. Entries are the entries in force, which were added since
	// the last break, and Binding is what their symbols depend on. Symbols counts the
	// symbols that were ever assigned.
	Revision int64
	Binding  events.SessionBinding
	Entries  []events.TaughtEntry
	Symbols  int
	// Position is that of the session's newest event.
	Position uint64

	// lastBreak is the last break in its continuity, or nil.
	lastBreak *events.SessionRebound
}

// readSession reads a session from the ledger. The error is CodeNotFound for an
// unknown session.
func (l *Ledger) readSession(ctx context.Context, tenant, id string) (_ logicalSession, err error) {
	ctx, answered := l.withAnswerDeadline(ctx)
	defer answered(&err)
	var s logicalSession
	if err := checkTenant(tenant); err != nil {
		return s, err
	}
	if !events.ValidHash(id) {
		return s, unknownSessionError(id)
	}
	_, err = l.store.Each(ctx, events.LogicalSubject(tenant, id), 0, func(e events.Event) error { return s.apply(e) })
	var answer *Error
	switch {
	case errors.As(err, &answer):
		return s, err
	case err != nil:
		return s, unavailable("read session "+id, err)
	case s.Position == 0:
		return s, unknownSessionError(id)
	}
	return s, nil
}

func (s *logicalSession) apply(e events.Event) error {
	next, err := nextTurn(e)
	if err != nil {
		return err
	}
	s.Next, s.Position = next, e.Seq
	switch d := e.Data.(type) {
	case *events.SessionOpened:
		s.ID, s.Kind, s.Intent, s.OpenedAt, s.Actor, s.Parent = d.SessionID, d.Kind, d.Content.Value().Intent, e.Time, d.Actor, d.Parent
	case *events.SessionExpanded:
		s.Revision, s.Binding = d.DomainRevision, d.Binding
		s.Entries = append(s.Entries, d.Added...)
		s.Symbols += len(d.Added)
	case *events.SessionRebound:
		s.Binding, s.Entries, s.lastBreak = events.SessionBinding{}, nil, d
	}
	return nil
}

// nextTurn returns where the next turn of a session continues after its newest event.
func nextTurn(e events.Event) (events.SessionNext, error) {
	switch d := e.Data.(type) {
	case *events.SessionOpened:
		return events.SessionNext{Heap: d.Head}, nil
	case *events.SessionTurnQueued:
		return events.SessionNext{Turn: d.Number, ExecutionID: d.ExecutionID}, nil
	case *events.SessionExpanded:
		return d.Next, nil
	case *events.SessionTurnSkipped:
		return d.Next, nil
	case *events.SessionRebound:
		return d.Next, nil
	case *events.SessionReset:
		if d.Next != nil {
			return *d.Next, nil
		}
		return events.SessionNext{}, fmt.Errorf("the reset of session %s at position %d does not say where the next turn continues: %w", d.SessionID, e.Seq, events.ErrDamaged)
	default:
		return events.SessionNext{}, newerSessionError(e.About(), e)
	}
}

func newerSessionError(id string, e events.Event) error {
	return &Error{Code: CodeUnavailable, Permanent: true, Message: fmt.Sprintf(
		"session %s has an event of type %s at position %d, written by a newer version of Daybook; upgrade this one", id, e.Type, e.Seq)}
}

func unknownSessionError(id string) error {
	return &Error{Code: CodeNotFound, Field: "logical_session", Message: fmt.Sprintf(
		"there is no session '%s'; call open_session to open one", Excerpt(id))}
}
