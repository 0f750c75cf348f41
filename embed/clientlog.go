package embed

import (
	"context"
	"errors"
	"fmt"

	"daybook/events"
	"daybook/internal/access"
	"daybook/internal/jetstream"
	"daybook/ledger"
	"daybook/projections"
)

// clientLog is the store as clients' changes are appended to it, by the ledger and by
// the conversation contexts. It delays and refuses them; what a runner records passes.
type clientLog struct {
	*jetstream.Store
	d *Daybook
}

// Append appends an event. A client's change is CodeExhausted if its tenant is at the
// limit of what it adds, or if too many earlier changes of the tenant stay unapplied. It
// is an *events.UnwritableError while the disk is below the reserve or the projections
// cannot be written.
func (l clientLog) Append(ctx context.Context, e events.Event, after int64) (uint64, error) {
	err := l.d.quotas.Keep(ctx, e.Tenant, access.KeptBy(e.Data))
	if over, limited := errors.AsType[*access.LimitError](err); limited {
		return 0, &ledger.Error{Code: ledger.CodeExhausted, Message: over.Error(), Err: over}
	}
	if err != nil {
		return 0, fmt.Errorf("append %s: %w", e.Type, err)
	}
	size, held := access.ChangeSize(e.Data)
	switch {
	case size == 0:
		return l.Store.Append(ctx, e, after)
	case !held:
		appended := l.d.changes.Count(l.d.projections, e.Tenant, size)
		seq, err := l.Store.Append(ctx, e, after)
		appended(seq)
		return seq, err
	}
	if err := l.d.disk.isLow(); err != nil {
		return 0, fmt.Errorf("append %s: %w", e.Type, err)
	}
	appended, err := l.d.changes.Admit(ctx, l.d.projections, e.Tenant, size)
	if err != nil {
		return 0, err
	}
	seq, err := l.Store.Append(ctx, e, after)
	appended(seq)
	return seq, err
}

var _ access.Applied = (*projections.Store)(nil)
