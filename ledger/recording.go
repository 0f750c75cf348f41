package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"daybook/events"
)

// Recording is an ended execution as the ledger holds it: every input that its outcome
// depends on, and the outcome.
type Recording struct {
	Request Request
	// Started is the attempt that ended; nil if the execution ended before it started.
	Started *events.ExecutionStarted
	// Seed is the seed of Started.
	Seed [16]byte
	// Callable holds the names of the tools that the script was allowed to call, by server.
	Callable map[string][]string
	// Calls are the host calls of all attempts, ordered by number.
	Calls []RecordedCall
	// Artifacts are those of the attempt that ended, in the order of their numbers.
	Artifacts []RecordedArtifact
	// Modules is what the script imports; nil if it imports no packages.
	Modules *RecordedModules
	// Status and Ending are the end. EndedAt is the position of the terminal event.
	Status  events.Status
	Ending  *events.Ending
	EndedAt uint64

	startedAt uint64
	reader    recordReader
}

// RecordStore is the part of a Store that a Recording is read from.
type RecordStore interface {
	// Execution is that of Histories.
	Execution(ctx context.Context, tenant, execution string) ([]events.Event, error)
	// EachAboutUntil is that of Histories.
	EachAboutUntil(ctx context.Context, subject, about string, after, until uint64, fn func(events.Event) error) error
	// Text is that of Texts.
	Text(ctx context.Context, tenant, hash string) ([]byte, error)
}

// recordReader reads what is recorded about an execution.
type recordReader struct {
	store RecordStore
	keys  events.Keys // nil for none
}

// Recording returns an ended execution. The errors are CodeNotFound for an unknown
// execution, CodeConflict for one that has not ended, and CodeUnavailable for one with
// events that this version does not know.
func (l *Ledger) Recording(ctx context.Context, tenant, execution string) (*Recording, error) {
	return l.recording(ctx, tenant, execution)
}

// ReadRecording is Ledger.Recording for a store that takes no events, such as an export.
// keys are the content keys; nil for none.
func ReadRecording(ctx context.Context, store RecordStore, keys events.Keys, tenant, execution string) (*Recording, error) {
	return recordReader{store, keys}.recording(ctx, tenant, execution)
}

func (r recordReader) recording(ctx context.Context, tenant, execution string) (*Recording, error) {
	h, err := r.history(ctx, tenant, execution)
	if err != nil {
		return nil, err
	}
	if err := h.checkKnownEvents(execution); err != nil {
		return nil, err
	}
	request, ok := NewRequest(h.events[0])
	if !ok {
		return nil, fmt.Errorf("read execution %s: its first event is of type %s: %w", execution, h.events[0].Type, events.ErrDamaged)
	}
	if h.terminal == nil {
		return nil, &Error{Code: CodeConflict, Message: fmt.Sprintf("Execution '%s' has not ended; wait for its end or cancel it", execution)}
	}
	rec := &Recording{Request: request, Calls: r.loadResults(tenant, h), Artifacts: h.artifacts, Ending: events.EndingOf(h.terminal.Data), EndedAt: h.terminal.Seq, reader: r}
	rec.Modules = r.loadedModules(tenant, h)
	rec.Status, _ = h.terminal.Type.Status()
	if h.newest == nil {
		return rec, nil
	}
	var p Plan
	if err := restoreSeedAndClock(&p, h.newest); err != nil {
		return nil, err
	}
	rec.Started, rec.Seed, rec.startedAt = h.newest, p.Seed, h.startedAt
	if callable := cmp.Or(h.newest.Callable, h.first.Callable); callable != nil {
		if rec.Callable, err = r.readCallable(ctx, tenant, callable); err != nil {
			return nil, err
		}
	}
	return rec, nil
}

// CheckExists returns the error of Ledger.Recording if the execution is no longer recorded,
// because its volume was removed since the Recording was read. What Output and Text returned
// meanwhile may then be incomplete.
func (r *Recording) CheckExists(ctx context.Context) error {
	_, err := r.reader.history(ctx, r.Request.Tenant, r.Request.ExecutionID)
	return err
}

// ContentAvailable returns nil if the content of the execution is readable. Otherwise the
// error wraps events.ErrShredded if its key is destroyed, or is CodeUnavailable if this
// process has no keys.
func (r *Recording) ContentAvailable() error {
	if r.Request.Content.Plain != nil || r.Request.Content.Sealed == nil {
		return nil
	}
	if r.reader.keys == nil {
		return errNoKeys()
	}
	return &Error{Code: CodeGone, Message: "the content of the run was shredded", Err: events.ErrShredded}
}

// Text returns a text of the execution, which may be a blob, after it has checked the hash
// of the blob. Errors are those of Texts.Text. It returns nil for a nil body.
func (r *Recording) Text(ctx context.Context, b *events.Body) ([]byte, error) {
	switch {
	case b == nil:
		return nil, nil
	case b.Blob == nil:
		return []byte(b.Text), nil
	}
	text, err := r.reader.store.Text(ctx, r.Request.Tenant, b.Blob.SHA256)
	if err != nil {
		return nil, fmt.Errorf("read a text of execution %s: %w", r.Request.ExecutionID, err)
	}
	return text, nil
}

// KeyedHash returns a hash in the form in which the execution records it: the hash itself,
// or a keyed hash if the content is encrypted.
func (r *Recording) KeyedHash(hash string) (string, error) {
	return r.reader.keyedHash(r.Request.ContentKeyID(), hash)
}

// Output calls fn with the recorded output of the attempt that ended, in order, as the
// pieces of lines that the events hold. An error of fn is returned unchanged.
func (r *Recording) Output(ctx context.Context, fn func(events.Line) error) error {
	if r.Started == nil {
		return nil
	}
	x := events.ExtentFrom(r.Started)
	var failed error
	// The subject is that of many executions: what follows the end is not read.
	err := r.reader.store.EachAboutUntil(ctx, events.OutSubject(r.Request.Tenant, r.Request.ExecutionID), r.Request.ExecutionID, r.startedAt, r.EndedAt, func(e events.Event) error {
		d, ok := e.Data.(*events.ExecutionOutput)
		if !ok || e.Seq > r.EndedAt || !x.Add(d) { // output after the end does not count
			return nil
		}
		if d.Content.Plain == nil && d.Content.Sealed != nil {
			failed = fmt.Errorf("the output of execution %s is not readable: %w", r.Request.ExecutionID, events.ErrShredded)
			return failed
		}
		for _, line := range d.Content.Value().Lines {
			if failed = fn(line); failed != nil {
				return failed
			}
		}
		return nil
	})
	if failed != nil || err == nil {
		return failed
	}
	if errors.Is(err, events.ErrNotFound) {
		return nil
	}
	return unavailable("read the output of execution "+r.Request.ExecutionID, err)
}

// RecordReplay records the verdict of a replay and returns the position of the event. Its
// content is encrypted with the key of the execution. If that key is destroyed, the event
// has no content.
func (l *Ledger) RecordReplay(ctx context.Context, r *Recording, d *events.ExecutionReplayed) (seq uint64, err error) {
	done, err := l.useKey(r.Request.ContentKeyID())
	switch {
	case err == nil:
		defer done()
	case errors.Is(err, events.ErrShredded):
		d.Content = events.Plain(events.ReplayedContent{})
	default:
		return 0, err
	}
	e := l.newEvent(r.Request.Tenant, "", d)
	if err == nil {
		e.EncryptWithKey = r.Request.ContentKeyID()
	}
	if seq, err = l.store.Append(ctx, e, AnyPosition); err != nil {
		return 0, unavailable("record the replay of execution "+r.Request.ExecutionID, err)
	}
	return seq, nil
}
