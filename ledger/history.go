package ledger

import (
	"context"
	"errors"
	"fmt"

	"daybook/events"
)

// History returns the recorded events of an execution, control and output events, in
// ledger order. The error is CodeNotFound for an unknown execution. The whole history is
// held in memory, which is up to the output cap of the run. EachEvent holds only a part
// of it at a time.
func (l *Ledger) History(ctx context.Context, tenant, execution string) ([]events.Event, error) {
	var all []events.Event
	err := l.EachEvent(ctx, tenant, execution, 0, func(e events.Event) error {
		all = append(all, e)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// EachEvent calls fn with the recorded events of an execution after a position, control and
// output events, in ledger order. The error is CodeNotFound for an unknown execution, before
// the first call. An error of fn is returned unchanged.
func (l *Ledger) EachEvent(ctx context.Context, tenant, execution string, after uint64, fn func(events.Event) error) error {
	if err := checkTenant(tenant); err != nil {
		return err
	}
	if !events.ValidID(execution) {
		return unknownExecutionError(execution)
	}
	var failed error
	err := l.store.ExecutionEvents(ctx, tenant, execution, after, func(e events.Event) error {
		failed = fn(e)
		return failed
	})
	switch {
	case failed != nil:
		return failed
	case errors.Is(err, events.ErrNotFound):
		return unknownExecutionError(execution)
	case err != nil:
		return unavailable("read execution "+execution, err)
	}
	return nil
}

// Requested returns the position of the request of an execution. The error is
// CodeNotFound for an unknown execution.
func (l *Ledger) Requested(ctx context.Context, tenant, execution string) (position uint64, err error) {
	errFirst := errors.New("found")
	err = l.EachEvent(ctx, tenant, execution, 0, func(e events.Event) error {
		position = e.Seq
		return errFirst
	})
	if errors.Is(err, errFirst) {
		return position, nil
	}
	return 0, err
}

// Files returns the files that were submitted with an execution, as one JSON object of their
// texts by path. It calls fits with their length before it reads them from the store, and
// returns its error unchanged. The error wraps events.ErrNotFound for an execution without
// files, and events.ErrShredded if the content was shredded; it is CodeNotFound for an unknown
// execution.
func (l *Ledger) Files(ctx context.Context, tenant, execution string, fits func(size int64) error) ([]byte, error) {
	errFirst := errors.New("found")
	var requested *events.ExecutionRequested
	err := l.EachEvent(ctx, tenant, execution, 0, func(e events.Event) error {
		requested, _ = e.Data.(*events.ExecutionRequested)
		return errFirst
	})
	switch {
	case !errors.Is(err, errFirst):
		return nil, err
	case requested == nil:
		return nil, fmt.Errorf("read execution %s: its first event is no request: %w", execution, events.ErrDamaged)
	}
	if err := (&Recording{Request: Request{ExecutionRequested: *requested}, reader: l.recordReader}).ContentAvailable(); err != nil {
		return nil, err
	}
	files := requested.Content.Value().Files
	switch {
	case files == nil:
		return nil, fmt.Errorf("execution %s has no files: %w", execution, events.ErrNotFound)
	case files.Blob == nil:
		return []byte(files.Text), nil
	}
	if err := fits(files.Blob.Size); err != nil {
		return nil, err
	}
	text, err := l.store.Text(ctx, tenant, files.Blob.SHA256)
	if err != nil {
		return nil, fmt.Errorf("read the files of execution %s: %w", execution, err)
	}
	return text, nil
}

// history is the state of an execution, derived from its control events.
type history struct {
	events []events.Event
	// position is that of the last event on the control subject; 0 means none yet.
	position uint64
	// terminal is the event that ended the execution, or nil.
	terminal *events.Event
	// cancel is the first request to cancel, or nil.
	cancel *events.ExecutionCancelRequested
	// first and newest are the started events of the first and the newest attempt.
	// startedAt is the position of newest.
	first, newest *events.ExecutionStarted
	startedAt     uint64
	// attempts counts the started events of attempts that were not handed back.
	attempts int
	// handedBack reports whether the newest attempt was handed back.
	handedBack bool
	// calls are the host calls of the script, ordered by number.
	calls []RecordedCall
	// artifacts are those of the newest attempt, in the order of their numbers.
	artifacts []RecordedArtifact
	// modules is what the script imports; nil if that is not recorded.
	modules *events.ExecutionModulesLoaded
	// unknown is an event whose type this version does not know, or nil.
	unknown *events.Event
}

// history reads the control events of an execution. The error is CodeNotFound for an
// unknown one.
func (r recordReader) history(ctx context.Context, tenant, execution string) (*history, error) {
	if err := checkTenant(tenant); err != nil {
		return nil, err
	}
	if !events.ValidID(execution) {
		return nil, unknownExecutionError(execution)
	}
	list, err := r.store.Execution(ctx, tenant, execution)
	switch {
	case errors.Is(err, events.ErrNotFound), err == nil && len(list) == 0:
		return nil, unknownExecutionError(execution)
	case err != nil:
		return nil, unavailable("read execution "+execution, err)
	}
	return foldHistory(list), nil
}

func unknownExecutionError(execution string) error {
	return &Error{Code: CodeNotFound, Field: "execution_id", Message: fmt.Sprintf("Execution '%s' not found", Excerpt(execution))}
}

func foldHistory(list []events.Event) *history {
	h := &history{events: list}
	for i := range list {
		h.apply(&list[i], i == 0)
	}
	return h
}

func (h *history) apply(e *events.Event, requested bool) {
	// The requested event is on a subject of its own.
	if !requested {
		h.position = e.Seq
	}
	if e.Type.Terminal() {
		if h.terminal == nil {
			h.terminal = e
		}
		return
	}
	switch d := e.Data.(type) {
	case *events.ExecutionStarted:
		if h.first == nil {
			h.first = d
		}
		h.newest, h.startedAt, h.handedBack = d, e.Seq, false
		h.artifacts = nil // the attempt creates them again
		h.attempts++
	case *events.ExecutionHandedBack:
		if h.newest != nil && !h.handedBack && d.Attempt == h.newest.Attempt {
			h.handedBack = true
			h.attempts--
		}
	case *events.ExecutionCancelRequested:
		if h.cancel == nil {
			h.cancel = d
		}
	case *events.HostCalled, *events.HostReturned:
		h.applyHost(e)
	case *events.ExecutionArtifactCreated:
		h.applyArtifact(d)
	case *events.ExecutionModulesLoaded:
		if h.modules == nil {
			h.modules = d
		}
	case *events.Unknown:
		h.unknown = e
	}
}

// attempt returns the number of the newest attempt; 0 means never started.
func (h *history) attempt() int {
	if h.newest == nil {
		return 0
	}
	return h.newest.Attempt
}

// inputHeap returns the heap that the newest attempt restored.
func (h *history) inputHeap() string {
	if h.newest == nil {
		return ""
	}
	return h.newest.InputHeap
}

// checkKnownEvents returns an error if the history holds an event that this version does not
// know. This version MUST NOT add to such a history.
func (h *history) checkKnownEvents(execution string) error {
	if h.unknown != nil {
		return newerEventError(execution, *h.unknown)
	}
	return nil
}

func newerEventError(execution string, e events.Event) error {
	return &Error{Code: CodeUnavailable, Permanent: true, Message: fmt.Sprintf(
		"execution %s has an event of type %s at position %d, written by a newer version of Daybook; upgrade this one", execution, e.Type, e.Seq)}
}
