package admission

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/web/access"
	"daybook/ledger"
)

// Log is the store for changes of clients, which the ledger and the conversation
// contexts append. It delays and refuses such changes, but not events of a runner.
type Log struct {
	*jetstream.Store
	// Gate delays and refuses the changes.
	Gate *Gate
	// Entered reports that these changes have waited for the share of their tenant
	// before, see access.Changes.Enter.
	Entered bool
}

// Append appends an event. For a change of a client it returns an error of
// CodeExhausted if the event adds a session, a short name, a context or tagged heaps
// above the limit of the tenant, or if too many earlier changes of the tenant are not
// applied. It returns *events.UnwritableError while free disk space is below the reserve
// or the projections cannot be written. If an event of a command is recorded already, the
// further events of the command are not held back: an error could not say that nothing was
// recorded. If no event of a command was sent, Append returns *events.NoAnswerError
// within 200 ms while an outside server is silent.
func (l Log) Append(ctx context.Context, e events.Event, after int64) (uint64, error) {
	if l.Entered {
		// Notes are recorded later. The client of an edit of a conversation context gets the
		// reason immediately.
		if err := l.Silent(); err != nil {
			return 0, fmt.Errorf("append %s: %w", e.Type, err)
		}
	}
	if ledger.HasSentNothing(ctx) {
		if err := l.AwaitAnswers(ctx); err != nil {
			if silent, ok := errors.AsType[*events.NoAnswerError](err); ok {
				silent.NotSent = true
			}
			return 0, fmt.Errorf("append %s: %w", e.Type, err)
		}
	}
	ledger.NoteSent(ctx)
	seq, err := l.append(ctx, e, after)
	if err == nil {
		ledger.NoteRecorded(ctx)
		l.Gate.ended.note(e)
	}
	return seq, err
}

// endedCount counts the executions that the server ended without a runner, by status.
// The runner counts the others.
type endedCount struct {
	mu sync.Mutex
	by map[events.Status]int64 // guarded by mu
}

// note counts a recorded event if it ends an execution without a runner.
func (c *endedCount) note(e events.Event) {
	status, ok := e.Type.Status()
	if end := events.EndingOf(e.Data); !ok || end == nil || end.Runner != "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = map[events.Status]int64{}
	}
	c.by[status]++
}

// Ended returns the number of executions that the server ended with a status without a
// runner.
func (g *Gate) Ended(status events.Status) int64 {
	g.ended.mu.Lock()
	defer g.ended.mu.Unlock()
	return g.ended.by[status]
}

func (l Log) append(ctx context.Context, e events.Event, after int64) (uint64, error) {
	err := l.Gate.Quotas.CheckKept(ctx, e.Tenant, access.KeptBy(e.Data))
	if over, limited := errors.AsType[*access.LimitError](err); limited {
		return 0, OverLimit(over)
	}
	if err != nil {
		return 0, fmt.Errorf("append %s: %w", e.Type, err)
	}
	size, held := access.ChangeSize(e.Data)
	switch {
	case size == 0:
		return l.Store.Append(ctx, e, after)
	case !held, ledger.HasRecorded(ctx):
		appended := l.Gate.Changes.Count(l.Gate.Applied(), e.Tenant, size)
		return l.record(ctx, e, after, appended)
	}
	if err := l.Gate.DiskLow(); err != nil {
		return 0, fmt.Errorf("append %s: %w", e.Type, err)
	}
	admit := l.Gate.Changes.Admit
	if l.Entered {
		admit = l.Gate.Changes.AdmitEntered
	}
	appended, err := admit(ctx, l.Gate.Applied(), e.Tenant, size)
	if err != nil {
		return 0, err
	}
	return l.record(ctx, e, after, appended)
}

// record appends an event and passes its position to appended. It also calls appended if
// the append panics: otherwise the tenant of the event would count as waiting until the
// server ends, and other tenants would wait for that tenant.
func (l Log) record(ctx context.Context, e events.Event, after int64, appended func(seq uint64)) (seq uint64, err error) {
	defer func() { appended(seq) }()
	return l.Store.Append(ctx, e, after)
}
