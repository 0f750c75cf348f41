package ledger

import (
	"context"
	"errors"

	"daybook/events"
)

// Keys holds the content keys of sessions.
type Keys interface {
	events.Keys
	// Current returns the id of the key for new content of a session. It creates a key if
	// there is none; a new key is on disk when Current returns.
	Current(tenant, sessionID string) (id string, err error)
}

// ContentKeyID returns the id of the key that the content of the run is encrypted with;
// empty if the content is not encrypted.
func (r Request) ContentKeyID() string { return events.ContentKeyID(&r.ExecutionRequested) }

// newExecutionEvent returns a new event of a run, encrypted with the key of its request.
func (l *Ledger) newExecutionEvent(req Request, d events.Data) events.Event {
	e := l.newEvent(req.Tenant, req.Traceparent, d)
	e.EncryptWithKey = req.ContentKeyID()
	return e
}

// encryptRequest chooses the content key for a requested run and replaces the hashes of
// encrypted content by keyed hashes. It does nothing outside of a named session and
// without Options.EncryptNamedSessions.
func (l *Ledger) encryptRequest(tenant string, req *events.ExecutionRequested) (keyID string, err error) {
	if l.opts.Keys == nil || !l.opts.EncryptNamedSessions || req.SessionID == "" {
		return "", nil
	}
	if keyID, err = l.opts.Keys.Current(tenant, req.SessionID); err != nil {
		return "", unavailable("encrypt the run", err)
	}
	if req.SourceSHA256, err = l.keyedHash(keyID, req.SourceSHA256); err == nil {
		req.RequestSHA256, err = l.keyedHash(keyID, req.RequestSHA256)
	}
	return keyID, err
}

// keyedHash returns the hash that is recorded for content encrypted with a key. With an
// empty key it is the hash itself.
func (l *Ledger) keyedHash(keyID, hash string) (string, error) {
	if keyID == "" || hash == "" {
		return hash, nil
	}
	if l.opts.Keys == nil {
		return "", &Error{Code: CodeUnavailable, Message: "the run's content is encrypted, and this process has no keys; run it in a process that has them"}
	}
	hash, err := events.KeyedHash(keyID, hash, l.opts.Keys)
	if errors.Is(err, events.ErrShredded) {
		return "", &Error{Code: CodeGone, Message: "the content of the run's session was shredded; use another session, and another idempotency key", Err: err}
	}
	return hash, err
}

// RecordShred records that the content of a session is shredded, and returns the event.
// The caller MUST destroy the keys afterwards.
func (l *Ledger) RecordShred(ctx context.Context, tenant string, d *events.SessionShredded) (events.Event, error) {
	if err := checkTenant(tenant); err != nil {
		return events.Event{}, err
	}
	ctx, stop := commitContext(ctx)
	defer stop()
	e := l.newEvent(tenant, "", d)
	var err error
	if e.Seq, err = l.store.Append(ctx, e, AnyPosition); err != nil {
		return events.Event{}, unavailable("record that a session is shredded", err)
	}
	return e, nil
}
