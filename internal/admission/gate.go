package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"daybook/events"
	"daybook/internal/link"
	"daybook/internal/web/access"
	"daybook/ledger"
)

// Gate admits what clients record. Its fields are set before the first use and are not
// changed afterwards. It is safe for concurrent use.
type Gate struct {
	// Quotas are the limits of tenants, and Changes the changes that are in progress.
	Quotas  *access.Quotas
	Changes *access.Changes
	// Applied returns the projections that apply the changes. It is called after they
	// are open.
	Applied func() access.Applied
	// DiskLow returns the reason why free disk space is below the reserve, or nil.
	DiskLow func() error
	// IsDraining reports that runs in progress finish and new ones are refused.
	IsDraining func() bool

	ended endedCount
}

// nextOwnerKey marks the context of a request whose client asks the next owner of the data
// directory when this owner ends, and for which link.IsLinked cannot report that.
type nextOwnerKey struct{}

// WithNextOwner returns the context of a request whose client asks the next owner of the
// data directory for the answer if this owner ends.
func WithNextOwner(ctx context.Context) context.Context {
	return context.WithValue(ctx, nextOwnerKey{}, true)
}

// Admit is ledger.Options.Admit. It refuses a run in three cases: the server drains and the
// next owner does not answer the client, free disk space is below the reserve, or the
// tenant is above a quota.
func (g *Gate) Admit(ctx context.Context, s *ledger.Submission) (done func(seq uint64), err error) {
	if g.IsDraining() && !link.IsLinked(ctx) && ctx.Value(nextOwnerKey{}) == nil {
		return nil, &ledger.Error{Code: ledger.CodeUnavailable, Message: "the server is shutting down and takes no new runs; try again when it is back"}
	}
	if err := g.DiskLow(); err != nil {
		return nil, err
	}
	place, err := g.reserve(ctx, s)
	if over, limited := errors.AsType[*access.LimitError](err); limited {
		return nil, OverLimit(over)
	}
	if err != nil {
		return nil, err
	}
	return func(seq uint64) {
		if seq == 0 {
			place.Release()
			return
		}
		place.Commit(seq)
	}, nil
}

// OverLimit returns the error of the ledger for a limit of a tenant.
func OverLimit(over *access.LimitError) *ledger.Error {
	return &ledger.Error{Code: ledger.CodeExhausted, Message: over.Error(), Err: over}
}

// reserve counts a run against the quotas of its tenant. If the tenant may have no
// further conversation context, the run has no context and gets a warning.
func (g *Gate) reserve(ctx context.Context, s *ledger.Submission) (*access.Reservation, error) {
	if err := g.Quotas.CheckKept(ctx, s.Tenant, access.Kept{Session: s.Session}); err != nil {
		return nil, err
	}
	if s.Context != nil {
		err := g.Quotas.CheckKept(ctx, s.Tenant, access.Kept{Context: s.Context.Key})
		if over, limited := errors.AsType[*access.LimitError](err); limited {
			s.Context = nil
			s.Warnings = append(slices.Clip(s.Warnings), "the run is in no conversation context: "+over.Error())
		} else if err != nil {
			return nil, err
		}
	}
	return g.Quotas.Admit(ctx, s.Tenant)
}

// Commands is the write side for clients, with the limits of their tenants.
type Commands struct {
	*ledger.Ledger
	// Gate holds the limits.
	Gate *Gate
}

// SetTags refuses tags, which are stored with heaps, to a tenant whose heaps exceed
// their quota. The tenant can still clear tags.
func (c Commands) SetTags(ctx context.Context, tenant, heap string, tags map[string]string, actor events.Actor) (uint64, error) {
	if len(tags) > 0 {
		err := c.Gate.Quotas.CheckHeaps(ctx, tenant)
		if over, limited := errors.AsType[*access.LimitError](err); limited {
			return 0, OverLimit(over)
		}
		if err != nil {
			return 0, fmt.Errorf("set the tags of heap %s: %w", heap, err)
		}
	}
	return c.Ledger.SetTags(ctx, tenant, heap, tags, actor)
}

// AssignRef gives a session a short name. If the tenant has as many short names as it
// may have, AssignRef returns the id of the session, which clients can use instead.
func (c Commands) AssignRef(ctx context.Context, tenant, holder, session string) (ref string, seq uint64, err error) {
	ref, seq, err = c.Ledger.AssignRef(ctx, tenant, holder, session)
	if over, limited := errors.AsType[*access.LimitError](err); limited && over.Permanent {
		return session, 0, nil
	}
	return ref, seq, err
}
