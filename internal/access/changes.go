package access

import (
	"context"
	"fmt"
	"sync"
	"time"

	"daybook/events"
	"daybook/ledger"
)

const (
	// mostUnapplied and mostUnappliedBytes bound the changes of one tenant that are
	// recorded and not applied to the projections, which all tenants read.
	mostUnapplied      = 256
	mostUnappliedBytes = 256 << 10
	// unappliedWait is how long a change waits for earlier ones of its tenant, and
	// unappliedRetry when it may be repeated after that.
	unappliedWait  = 2 * time.Second
	unappliedRetry = time.Second
	// manyBacklogs is how many tenants' backlogs are kept before the empty ones are
	// dropped.
	manyBacklogs = 1024
	// changeBytes and tagBytes are the cost of a change and of a tag besides their
	// text.
	changeBytes, tagBytes = 512, 128
)

// ChangeSize returns about how many bytes a client's change takes in the projections,
// and false for an event that must be recorded because of an earlier one.
func ChangeSize(data events.Data) (size int, ok bool) {
	size = changeBytes
	switch d := data.(type) {
	case *events.ExecutionRequested:
		size += len(d.Content.Value().Source.Text)
		return size, d.Turn == nil // a turn is queued first
	case *events.HeapTagged:
		for key, value := range d.Content.Value().Tags {
			size += tagBytes + len(key) + len(value)
		}
		return size, d.Edit != events.EditRun
	case *events.ContextUpdated:
		for key, value := range d.Content.Value().Custom {
			size += len(key) + len(value)
		}
		return size, true
	case *events.ContextCleared, *events.SessionNamed, *events.SessionOpened, *events.SessionExpanded, *events.SessionRefAssigned,
		*events.SessionReset, *events.SessionTurnQueued, *events.AgentSessionCreated, *events.AgentSessionConfigured:
		return size, true
	}
	return 0, false
}

// Applied is how far the projections have come. *projections.Store implements it.
type Applied interface {
	Applied() uint64
	Changed() <-chan struct{}
	Damage() error
	Stalled() error
}

// Changes admits the changes of clients: it holds those of each tenant that are
// recorded and not applied. The zero value is ready to use. It is safe for concurrent
// use.
type Changes struct {
	mu       sync.Mutex
	backlogs map[string]*backlog // by tenant; guarded by mu
}

// backlog is what one tenant has unapplied.
type backlog struct {
	changes []*change
	bytes   int
}

// change is a change that is appended or will be.
type change struct {
	seq   uint64 // 0 until it is known
	bytes int
}

// Admit waits until a tenant may append a change of about that many bytes, see
// ChangeSize, and returns CodeExhausted if it waits for too long. The caller MUST call appended with
// the position of the change, 0 if it was not recorded.
func (u *Changes) Admit(ctx context.Context, view Applied, tenant string, bytes int) (appended func(seq uint64), err error) {
	var late <-chan time.Time
	for {
		changed := view.Changed()
		c, waiting := u.add(view.Applied(), tenant, bytes)
		if c != nil {
			return func(seq uint64) { u.appended(tenant, c, seq) }, nil
		}
		// What can never be applied, or not now, is reported by others.
		if view.Damage() != nil || view.Stalled() != nil {
			return func(uint64) {}, nil
		}
		if late == nil {
			timer := time.NewTimer(unappliedWait)
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-changed:
		case <-late:
			return nil, &ledger.Error{Code: ledger.CodeExhausted, RetryAfter: unappliedRetry, Message: fmt.Sprintf(
				"%d earlier changes of this tenant are recorded and cannot be read yet; nothing was recorded; try again in %d s", waiting, int(unappliedRetry.Seconds()))}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// add adds a change to the backlog of its tenant, or returns nil and the number of
// changes there when it is full.
func (u *Changes) add(upTo uint64, tenant string, bytes int) (c *change, waiting int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	b := u.backlogs[tenant]
	if b == nil {
		if len(u.backlogs) >= manyBacklogs {
			u.dropEmpty(upTo)
		}
		if u.backlogs == nil {
			u.backlogs = map[string]*backlog{}
		}
		b = &backlog{}
		u.backlogs[tenant] = b
	}
	b.forget(func(c *change) bool { return c.seq != 0 && c.seq <= upTo })
	if len(b.changes) >= mostUnapplied || b.bytes >= mostUnappliedBytes {
		return nil, len(b.changes)
	}
	c = &change{bytes: bytes}
	b.changes = append(b.changes, c)
	b.bytes += bytes
	return c, 0
}

// dropEmpty drops the backlogs in which everything is applied. The caller must hold mu.
func (u *Changes) dropEmpty(upTo uint64) {
	for tenant, b := range u.backlogs {
		if b.forget(func(c *change) bool { return c.seq != 0 && c.seq <= upTo }); len(b.changes) == 0 {
			delete(u.backlogs, tenant)
		}
	}
}

// appended notes the position of a change, or forgets it.
func (u *Changes) appended(tenant string, c *change, seq uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if c.seq = seq; seq == 0 {
		u.backlogs[tenant].forget(func(other *change) bool { return other == c })
	}
}

// forget removes changes from the backlog.
func (b *backlog) forget(which func(*change) bool) {
	kept := b.changes[:0]
	for _, c := range b.changes {
		if which(c) {
			b.bytes -= c.bytes
		} else {
			kept = append(kept, c)
		}
	}
	clear(b.changes[len(kept):])
	b.changes = kept
}
