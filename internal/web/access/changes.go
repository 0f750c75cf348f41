package access

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"daybook/events"
	"daybook/ledger"
)

const (
	// maxUnapplied and maxUnappliedBytes bound the changes of one tenant that are
	// recorded but not yet applied to the projections, which all tenants share.
	maxUnapplied      = 256
	maxUnappliedBytes = 256 << 10
	// unappliedTimeout bounds how long a change waits for earlier ones of its tenant.
	// unappliedRetry is the retry time of a change that waited too long.
	unappliedTimeout = 2 * time.Second
	unappliedRetry   = time.Second
	// manyBacklogs is the number of tenants from which empty backlogs are dropped.
	manyBacklogs = 1024
	// changeBytes and tagBytes are the sizes of a change and of a tag, in bytes,
	// without their texts.
	changeBytes, tagBytes = 512, 128
)

// ChangeSize returns the approximate size of a client's change in the projections, in
// bytes, or 0 for events that are no change of a client. held reports whether the change
// waits, as in Changes.Admit. It is false for an event that must always be recorded, for
// example because of an earlier event.
func ChangeSize(data events.Data) (size int, held bool) {
	size = changeBytes
	switch d := data.(type) {
	case *events.ExecutionRequested:
		content := d.Content.Value()
		return size + bodySize(content.Source) + tagsSize(content.Tags), d.Turn == nil // for a turn, the SessionTurnQueued event is held instead
	case *events.HeapTagged:
		if d.Edit == events.EditRun {
			return 0, false
		}
		return size + tagsSize(d.Content.Value().Tags), true
	case *events.ContextUpdated:
		for key, value := range d.Content.Value().Custom {
			size += len(key) + len(value)
		}
		return size, true
	case *events.AgentPrompted:
		return size + bodySize(d.Content.Value().Blocks), true
	case *events.AgentAnswered:
		return size + bodySize(d.Content.Value().Text), false // its prompt is recorded already
	case *events.AgentSessionCreated:
		return size + workspaceSize(d.Content.Value()), true
	case *events.AgentSessionAttached:
		return size + workspaceSize(d.Content.Value()), false // needed to read a session, also while the disk is full
	case *events.SessionOpened:
		return size, d.IntentSHA256 == "" // for a session with an intent, a SessionNamed event comes first
	case *events.ExecutionReplayed:
		content := d.Content.Value()
		return size + len(content.Recorded) + len(content.Replayed), true
	case *events.HeapMigrated:
		content := d.Content.Value()
		return size + len(content.Recorded) + len(content.Replayed), d.RunID == "" // a run that needs the heap was admitted
	case *events.ContextCleared, *events.SessionNamed, *events.SessionExpanded, *events.SessionRefAssigned,
		*events.SessionReset, *events.SessionTurnQueued, *events.AgentSessionConfigured:
		return size, true
	}
	return 0, false
}

func bodySize(b events.Body) int {
	if b.Blob != nil {
		return len(b.Blob.Preview)
	}
	return len(b.Text)
}

func workspaceSize(w events.AgentWorkspace) int {
	size := len(w.Cwd)
	for _, dir := range w.AdditionalDirectories {
		size += len(dir)
	}
	return size
}

func tagsSize(tags map[string]string) (size int) {
	for key, value := range tags {
		size += tagBytes + len(key) + len(value)
	}
	return size
}

// Applied reports the progress of the projections. *projections.Store implements it.
type Applied interface {
	Applied() uint64
	NextCommit() <-chan struct{}
	Damage() error
	StallError() error
}

// Changes admits the changes of clients. It bounds the changes of each tenant that are
// recorded but not yet applied, and divides the time for changes among tenants. The
// zero value is ready to use. It is safe for concurrent use.
type Changes struct {
	share share
	// held counts the changes that waited until earlier ones were applied, refused those
	// that waited too long.
	held, refused atomic.Uint64

	mu       sync.Mutex
	backlogs map[string]*backlog // by tenant; guarded by mu
}

// backlog holds the unapplied changes of one tenant.
type backlog struct {
	changes []*change
	bytes   int
}

// change is a change that is appended, or about to be.
type change struct {
	seq   uint64 // 0 until it is known
	bytes int
}

// Admit waits until a tenant may append a change of approximately bytes bytes; see
// ChangeSize. It waits for earlier changes of the tenant to be applied, and for the
// tenant's share of the server while other tenants make changes. If it waits too long,
// it returns an error with CodeExhausted. The caller MUST call appended with the
// position of the change, or with 0 if it was not recorded.
func (u *Changes) Admit(ctx context.Context, view Applied, tenant string, bytes int) (appended func(seq uint64), err error) {
	cost := cost(bytes)
	if err := u.share.enter(ctx, tenant, cost); err != nil {
		return nil, err
	}
	return u.admit(ctx, view, tenant, bytes, cost)
}

// Enter waits for the share of a tenant, as Admit does. A caller that takes locks calls
// Enter before it takes them, and AdmitEntered afterwards.
func (u *Changes) Enter(ctx context.Context, tenant string) error {
	return u.share.enter(ctx, tenant, changeTime)
}

// AdmitEntered is Admit for a caller that has called Enter. If it returns an error, it also
// pays back the cost of Enter, so the caller MUST call Enter again before it tries again. The
// cost of Enter stays if the change is admitted and not recorded, because the caller may try
// again after a conflict.
func (u *Changes) AdmitEntered(ctx context.Context, view Applied, tenant string, bytes int) (appended func(seq uint64), err error) {
	cost := cost(bytes) - changeTime
	u.share.charge(tenant, cost, time.Now())
	appended, err = u.admit(ctx, view, tenant, bytes, cost)
	if err != nil {
		u.share.refund(tenant, changeTime)
	}
	return appended, err
}

// admit waits for the earlier changes of a tenant. cost is the cost that was added to the
// debt of the tenant for this change. admit subtracts it if it returns an error.
func (u *Changes) admit(ctx context.Context, view Applied, tenant string, bytes int, cost time.Duration) (appended func(seq uint64), err error) {
	defer func() {
		if err != nil {
			u.share.refund(tenant, cost)
		}
	}()
	var late <-chan time.Time
	for {
		changed := view.NextCommit()
		c, waiting := u.add(view.Applied(), tenant, bytes, false)
		if c != nil {
			return func(seq uint64) { u.finish(tenant, c, seq, cost) }, nil
		}
		if view.Damage() != nil {
			return func(uint64) {}, nil // nothing is applied any more, so no read waits
		}
		if err := view.StallError(); err != nil {
			return nil, fmt.Errorf("apply %d earlier changes of this tenant: %w", waiting, err) // waiting does not help
		}
		if late == nil {
			u.held.Add(1)
			timer := time.NewTimer(maxWait(ctx, unappliedTimeout))
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-changed:
		case <-late:
			u.refused.Add(1)
			return nil, &ledger.Error{Code: ledger.CodeExhausted, RetryAfter: unappliedRetry, Message: fmt.Sprintf(
				"%d earlier changes of this tenant are recorded and cannot be read yet; nothing was recorded; try again in %d s", waiting, int(unappliedRetry.Seconds()))}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Held counts the changes that waited, and those that waited too long and were refused.
type Held struct{ Waited, Refused uint64 }

// Held returns the numbers of held changes by what they waited for: "share" of the
// server, or "projections".
func (u *Changes) Held() map[string]Held {
	var share Held
	share.Waited, share.Refused = u.share.counts()
	return map[string]Held{"share": share, "projections": {u.held.Load(), u.refused.Load()}}
}

// Count adds a change that never waits. The caller MUST call appended, as after Admit.
func (u *Changes) Count(view Applied, tenant string, bytes int) (appended func(seq uint64)) {
	cost := cost(bytes)
	u.share.charge(tenant, cost, time.Now())
	c, _ := u.add(view.Applied(), tenant, bytes, true)
	if c == nil {
		return func(uint64) {}
	}
	return func(seq uint64) { u.finish(tenant, c, seq, cost) }
}

// add adds a change to the backlog of its tenant. If the backlog is full, add returns
// nil and the number of its changes. If must is set, the backlog may be twice as long.
func (u *Changes) add(upTo uint64, tenant string, bytes int, must bool) (c *change, waiting int) {
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
	b.remove(func(c *change) bool { return c.seq != 0 && c.seq <= upTo })
	if n := len(b.changes); n >= 2*maxUnapplied || !must && (n >= maxUnapplied || b.bytes >= maxUnappliedBytes) {
		return nil, len(b.changes)
	}
	u.share.begin(tenant)
	c = &change{bytes: bytes}
	b.changes = append(b.changes, c)
	b.bytes += bytes
	return c, 0
}

// dropEmpty drops the backlogs without unapplied changes. The caller must hold mu.
func (u *Changes) dropEmpty(upTo uint64) {
	for tenant, b := range u.backlogs {
		if b.remove(func(c *change) bool { return c.seq != 0 && c.seq <= upTo }); len(b.changes) == 0 {
			delete(u.backlogs, tenant)
		}
	}
}

// finish sets the position of a change. If seq is 0, it drops the change and its
// cost.
func (u *Changes) finish(tenant string, c *change, seq uint64, cost time.Duration) {
	if seq == 0 {
		u.share.refund(tenant, cost)
	}
	u.share.end(tenant)
	u.mu.Lock()
	defer u.mu.Unlock()
	if c.seq = seq; seq == 0 {
		u.backlogs[tenant].remove(func(other *change) bool { return other == c })
	}
}

// remove removes the changes for which which returns true.
func (b *backlog) remove(which func(*change) bool) {
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
