package projections

import (
	"context"
	"time"

	"daybook/events"
)

// logPatience is how long a session's log waits for entries on their way. Who
// was told that a run has ended looks for it there next; its entry is the event
// after its end, some milliseconds later. A runner that died in between leaves
// nobody waiting for long.
const logPatience = time.Second

// unlogged are the runs of sessions that have ended and have no entry yet, by
// session, and when they were seen to end.
type unlogged map[sessionKey]map[string]time.Time

type sessionKey struct{ tenant, id string }

func (u unlogged) add(key sessionKey, execution string) {
	if u[key] == nil {
		u[key] = map[string]time.Time{}
	}
	u[key][execution] = time.Now()
}

func (u unlogged) remove(key sessionKey, execution string) {
	delete(u[key], execution)
	if len(u[key]) == 0 {
		delete(u, key)
	}
}

// due returns how long is to be waited for a session at most: 0 when nothing is
// on its way, or nothing that can still be expected.
func (u unlogged) due(key sessionKey) time.Duration {
	var longest time.Duration
	for execution, ended := range u[key] {
		left := logPatience - time.Since(ended)
		if left <= 0 {
			u.remove(key, execution) // not waited for a second time
		}
		longest = max(longest, left)
	}
	return longest
}

// logged waits until the runs of a session that are known to have ended have
// their entries.
func (s *Store) logged(ctx context.Context, key sessionKey) error {
	for {
		s.mu.Lock()
		left, changed := s.unlogged.due(key), s.changed
		s.mu.Unlock()
		if left <= 0 {
			return nil
		}
		late := time.NewTimer(left)
		select {
		case <-changed:
		case <-late.C:
		case <-ctx.Done():
		}
		late.Stop()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// logChange is what a batch changes about them, in order.
type logChange struct {
	key       sessionKey
	execution string
	entry     bool // has its entry now; else it has ended
}

// note publishes what a batch changed, once it is committed.
func (u unlogged) note(changes []logChange) {
	for _, c := range changes {
		if c.entry {
			u.remove(c.key, c.execution)
		} else {
			u.add(c.key, c.execution)
		}
	}
}

func (a *applier) endedInSession(e *events.Event, st *state, execution string) {
	if st.session.Valid {
		a.log = append(a.log, logChange{key: sessionKey{e.Tenant, st.session.String}, execution: execution})
	}
}
