package projections

import (
	"context"
	"time"

	"daybook/events"
)

// entryWaitLimit limits how long a read of a session log waits for pending entries. A
// client that learns of the end of a run looks for the run in the log next. Its entry
// is the event after the end, some milliseconds later. If the runner dies in between,
// readers do not wait long.
const entryWaitLimit = time.Second

// pendingEntries holds, by session, the ended runs that have no entry yet, and the time
// when their end was applied.
type pendingEntries map[sessionKey]map[string]time.Time

type sessionKey struct{ tenant, id string }

func (u pendingEntries) add(key sessionKey, execution string) {
	if u[key] == nil {
		u[key] = map[string]time.Time{}
	}
	u[key][execution] = time.Now()
}

func (u pendingEntries) remove(key sessionKey, execution string) {
	delete(u[key], execution)
	if len(u[key]) == 0 {
		delete(u, key)
	}
}

// remainingWait returns how long to wait at most for a session, or 0 if it has no
// pending entry or none that can still be expected.
func (u pendingEntries) remainingWait(key sessionKey) time.Duration {
	var longest time.Duration
	for execution, ended := range u[key] {
		left := entryWaitLimit - time.Since(ended)
		if left <= 0 {
			u.remove(key, execution) // not waited for a second time
		}
		longest = max(longest, left)
	}
	return longest
}

// waitForEntries waits until the ended runs of a session have their entries, within
// entryWaitLimit.
func (s *Store) waitForEntries(ctx context.Context, key sessionKey) error {
	for {
		s.mu.Lock()
		left, changed := s.pendingEntries.remainingWait(key), s.commitCh
		s.mu.Unlock()
		if left <= 0 {
			return nil
		}
		timer := time.NewTimer(left)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// logChange is a change of the pending entries by a batch. Changes are kept in order.
type logChange struct {
	key       sessionKey
	execution string
	hasEntry  bool // the run has its entry now; otherwise it has ended
}

// applyChanges applies the changes of a batch after its commit.
func (u pendingEntries) applyChanges(changes []logChange) {
	for _, c := range changes {
		if c.hasEntry {
			u.remove(c.key, c.execution)
		} else {
			u.add(c.key, c.execution)
		}
	}
}

func (a *applier) noteEndInSession(e *events.Event, st *executionState, execution string) {
	if st.session.Valid {
		a.logChanges = append(a.logChanges, logChange{key: sessionKey{e.Tenant, st.session.String}, execution: execution})
	}
}
