package ledger

import (
	"context"
	"strconv"

	"daybook/events"
)

// AssignRef returns the short name of a session for a holder, for example a connection.
// It assigns a name if there is none: "s0" for the holder's first session, "s1" for the
// next. Short names survive restarts. seq is the position of the new event; 0 if the
// name was assigned before.
func (l *Ledger) AssignRef(ctx context.Context, tenant, holder, session string) (ref string, seq uint64, err error) {
	ctx, answered := l.withAnswerDeadline(ctx)
	defer answered(&err)
	err = retry(ctx, "name session "+session, func() error {
		assigned, last, err := l.assignedRefs(ctx, tenant, holder)
		if err != nil {
			return err
		}
		for _, e := range assigned {
			d, ok := e.Data.(*events.SessionRefAssigned)
			if !ok {
				return newerSessionError(session, e)
			}
			if d.SessionID == session {
				ref, seq = d.Ref, 0
				return nil
			}
		}
		ref = "s" + strconv.Itoa(len(assigned))
		seq, err = l.store.Append(ctx, l.newEvent(tenant, "", &events.SessionRefAssigned{Holder: holder, Ref: ref, SessionID: session}), int64(last))
		return err
	})
	return ref, seq, err
}

// assignedRefs returns the events that assigned short names for a holder, oldest first,
// and the position of the last (0: none).
func (l *Ledger) assignedRefs(ctx context.Context, tenant, holder string) (list []events.Event, last uint64, err error) {
	last, err = l.store.Each(ctx, events.RefSubject(tenant, holder), 0, func(e events.Event) error {
		list = append(list, e)
		return nil
	})
	return list, last, err
}

// ResolveRef returns the session of a short name, or CodeNotFound.
func (l *Ledger) ResolveRef(ctx context.Context, tenant, holder, ref string) (session string, err error) {
	ctx, answered := l.withAnswerDeadline(ctx)
	defer answered(&err)
	assigned, _, err := l.assignedRefs(ctx, tenant, holder)
	if err != nil {
		return "", unavailable("look up session "+Excerpt(ref), err)
	}
	for _, e := range assigned {
		if d, ok := e.Data.(*events.SessionRefAssigned); ok && d.Ref == ref {
			return d.SessionID, nil
		}
	}
	return "", unknownSessionError(ref)
}
