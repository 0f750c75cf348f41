package contextstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"daybook/events"
	"daybook/projections"
)

// readYourWritesTimeout is the time within which readers are expected to find a
// recorded run or note.
const readYourWritesTimeout = 5 * time.Second

// readWait returns how long a reader waits until recorded notes can be read: 3 s, or
// two thirds of its remaining time if that is less. The rest is for reading the
// context.
func readWait(ctx context.Context) time.Duration {
	most := 3 * time.Second
	if until, ok := ctx.Deadline(); ok {
		most = min(most, time.Until(until)*2/3)
	}
	return most
}

// load makes e.state the newest readable state. The caller must hold e.mu.
func (s *Store) load(ctx context.Context, e *entry) error {
	if e.changed == nil {
		e.changed, e.stop = s.opts.Views.Watch(e.key.Tenant, e.text)
	}
	if e.awaitedSeq != 0 && s.opts.Silent() == nil {
		// Wait until recorded notes can be read. If the projections are too far behind,
		// show the older state.
		wait, stop := context.WithTimeout(ctx, readWait(ctx))
		err := s.opts.Views.Wait(wait, e.awaitedSeq)
		stop()
		if why := ctx.Err(); why != nil {
			return why // the next reader waits again
		}
		if err != nil {
			s.opts.Logger.WarnContext(ctx, "waiting for the recorded notes of a context failed", "context", e.text, "err", err)
		}
		e.awaitedSeq, e.state = 0, nil
	}
	select {
	case <-e.changed:
		e.state = nil
	default:
	}
	if e.state != nil {
		return nil
	}
	st, err := s.opts.Views.Context(ctx, e.key.Tenant, e.text)
	switch {
	case errors.Is(err, events.ErrNotFound):
		st = s.newState(e)
	case err != nil:
		return err
	case st.Key != e.text || st.Kind != e.key.Kind || e.key.Kind != events.ContextSession && events.ValidHash(e.key.ID) && st.SessionID != e.key.ID:
		s.opts.Logger.ErrorContext(ctx, "a stored context has the wrong key", "want", e.text, "have", st.Key)
		return fmt.Errorf("read context %s: %w", e.text, errMismatch)
	}
	s.hideSecrets(&st)
	e.state = &st
	s.touch(e, st.UsedAt)
	return nil
}

// newState returns the state of a context that has no recorded event. It keeps the
// creation time and the id, so that the recorded context has the same ones.
func (s *Store) newState(e *entry) projections.ContextState {
	if e.fresh.IsZero() {
		e.fresh = s.opts.Now().UTC().Truncate(time.Millisecond)
	}
	if e.pending.sessionID == "" {
		e.pending.sessionID = e.key.sessionID()
	}
	at := events.FormatTime(e.fresh)
	ref := events.ContextRef{Key: e.text, SessionID: e.pending.sessionID, Kind: e.key.Kind}
	st := projections.ContextState{ContextRef: ref, UsedAt: e.fresh, Empty: true}
	st.Context = projections.NewContext(ref.SessionID, at)
	return st
}
