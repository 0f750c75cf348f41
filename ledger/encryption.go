package ledger

import (
	"context"
	"errors"

	"daybook/events"
)

// Keys holds the content keys of sessions, and of what belongs to no session.
type Keys interface {
	events.Keys
	// Use returns the id of the key for new content of a session. It creates a key if
	// there is none; a new key is on disk when Use returns. Nothing destroys the key until
	// done is called.
	Use(tenant, sessionID string) (id string, done func(), err error)
	// Find returns the id of the key for new content, or false if there is none.
	Find(tenant, sessionID string) (id string, ok bool)
	// UseKey is Use for a key that encrypts earlier content. It returns false if the key
	// does not exist or was destroyed.
	UseKey(id string) (done func(), ok bool)
	// IsClosed reports whether a shred is about to destroy a key.
	IsClosed(id string) bool
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

// contentOwner returns the key of what the content of a run belongs to: its named session,
// its logical or ACP session, or no session.
func contentOwner(s Submission, req *events.ExecutionRequested) string {
	switch {
	case req.SessionID != "":
		return req.SessionID
	case s.LogicalSession != "":
		return s.LogicalSession
	default:
		return events.NoSessionID(s.Tenant)
	}
}

// encryptRequest chooses the content key for a requested run, replaces the hashes of
// encrypted content by keyed hashes, and leaves the name of the file to the content. It does
// nothing without Options.EncryptContent. done is that of useContentKey.
func (l *Ledger) encryptRequest(s Submission, req *events.ExecutionRequested) (keyID string, done func(), err error) {
	keyID, done, err = l.useContentKey(s.Tenant, contentOwner(s, req))
	if err != nil || keyID == "" {
		return keyID, done, err
	}
	req.FileName = ""
	if req.SourceSHA256, err = l.keyedHash(keyID, req.SourceSHA256); err == nil {
		req.RequestSHA256, err = l.keyedHash(keyID, req.RequestSHA256)
	}
	if err != nil {
		done()
		return "", nil, err
	}
	return keyID, done, nil
}

// useContentKey returns the id of the key for new content of a session, or of
// events.NoSessionID; empty without Options.EncryptContent. The content is not shredded
// until done is called, which MUST be after the append.
func (l *Ledger) useContentKey(tenant, owner string) (keyID string, done func(), err error) {
	if l.opts.Keys == nil || !l.opts.EncryptContent {
		return "", func() {}, nil
	}
	if err := checkTenant(tenant); err != nil {
		return "", nil, err
	}
	if keyID, done, err = l.opts.Keys.Use(tenant, owner); err != nil {
		return "", nil, unavailable("encrypt content", err)
	}
	return keyID, done, nil
}

// UseKeyOfContent returns the id of the key for an edit that repeats content recorded under
// a key: that key, so that a shred of the content reaches the edit too. With an empty keyID
// it is the key for new content that belongs to no session; empty if content is not encrypted.
// The content is not shredded until done is called, which MUST be after the append. The error
// wraps events.ErrShredded if the key was destroyed since, and is CodeUnavailable while the
// content is being shredded.
func (l *Ledger) UseKeyOfContent(tenant, keyID string) (id string, done func(), err error) {
	if keyID == "" {
		return l.useContentKey(tenant, events.NoSessionID(tenant))
	}
	if done, err = l.useKey(keyID); err != nil {
		return "", nil, err
	}
	if l.opts.Keys.IsClosed(keyID) { // the shred would not find the edit, and would destroy it
		done()
		return "", nil, &Error{Code: CodeUnavailable, Message: "the content without a session is being shredded; try again"}
	}
	return keyID, done, nil
}

// intentKeys returns the keys under which the session of an intent may be recorded, the
// one for a new intent first. A keyed hash does not tell the intent to readers without keys.
func (l *Ledger) intentKeys(tenant, intent string) ([]string, error) {
	plain := events.IntentKey(tenant, intent)
	if l.opts.Keys == nil {
		return []string{plain}, nil
	}
	index := events.IntentIndexID(tenant)
	keyID, known := l.opts.Keys.Find(tenant, index)
	if !known && l.opts.EncryptContent {
		var done func()
		var err error
		if keyID, done, err = l.opts.Keys.Use(tenant, index); err != nil {
			return nil, unavailable("look up the intent", err)
		}
		done()
		known = true
	}
	if !known {
		return []string{plain}, nil
	}
	keyed, err := l.keyedHash(keyID, plain)
	if err != nil {
		return nil, err
	}
	if l.opts.EncryptContent {
		return []string{keyed, plain}, nil
	}
	return []string{plain, keyed}, nil
}

// useKey makes sure that a key that encrypts earlier content is not destroyed until done is
// called. It does nothing for an empty key id. The error is CodeGone for a destroyed key.
func (l *Ledger) useKey(keyID string) (done func(), err error) {
	if keyID == "" {
		return func() {}, nil
	}
	if l.opts.Keys == nil {
		return nil, errNoKeys()
	}
	done, ok := l.opts.Keys.UseKey(keyID)
	if !ok {
		return nil, &Error{Code: CodeGone, Message: "the content was shredded", Err: events.ErrShredded}
	}
	return done, nil
}

// ErrNoKeys is wrapped by errors about encrypted content in a process without content keys.
var ErrNoKeys = errors.New("no content keys")

func errNoKeys() error {
	return &Error{Code: CodeUnavailable, Err: ErrNoKeys, Message: "the run's content is encrypted, and this process has no keys; run it in a process that has them"}
}

// keyedHash returns the hash that is recorded for content encrypted with a key. With an
// empty key it is the hash itself.
func (r recordReader) keyedHash(keyID, hash string) (string, error) {
	if keyID == "" || hash == "" {
		return hash, nil
	}
	if r.keys == nil {
		return "", errNoKeys()
	}
	hash, err := events.KeyedHash(keyID, hash, r.keys)
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
