package access

import (
	"context"
	"errors"
	"fmt"

	"daybook/events"
)

// Kept lists what a change would add to the permanent data of a tenant, unless the tenant
// already has it. Empty members add nothing.
type Kept struct {
	// NewSession is true if the change opens a logical session.
	NewSession bool
	// NewShortName is true if a logical session gets a new short name, its ref.
	NewShortName bool
	// Session is the name of a session.
	Session string
	// Context is the key of a conversation context.
	Context string
	// Heap is a heap whose tags are set.
	Heap string
}

// KeptBy returns what an event of a client adds. It does not include what a run adds; see
// Quotas.Admit.
func KeptBy(data events.Data) Kept {
	switch d := data.(type) {
	case *events.SessionNamed:
		return Kept{NewSession: true}
	case *events.SessionOpened:
		return Kept{NewSession: d.IntentSHA256 == ""} // for a session with an intent, a SessionNamed event comes first
	case *events.SessionRefAssigned:
		return Kept{NewShortName: true}
	case *events.ContextUpdated:
		return Kept{Context: d.Key}
	case *events.ContextCleared:
		return Kept{Context: d.Key}
	case *events.ContextNoted:
		return Kept{Context: d.Key}
	case *events.HeapTagged:
		if d.Edit == events.EditSet {
			return Kept{Heap: d.Heap}
		}
	}
	return Kept{}
}

// CheckKept does what Allows does, and counts a refusal.
func (q *Quotas) CheckKept(ctx context.Context, tenant string, k Kept) error {
	err := q.Allows(ctx, tenant, k)
	if over, limited := errors.AsType[*LimitError](err); limited {
		return q.countRefusal(over)
	}
	return err
}

// Allows returns a *LimitError if a change would add a session, a short name, a
// conversation context or a tagged heap to a tenant that has reached the limit for these.
// Uses of existing ones are always allowed. Allows does not count changes that are recorded
// but not yet applied, so concurrent changes may exceed the limit by their number.
func (q *Quotas) Allows(ctx context.Context, tenant string, k Kept) error {
	if q == nil || k == (Kept{}) || q.limits.Sessions == 0 && q.limits.TaggedHeaps == 0 {
		return nil
	}
	use, err := q.meter.TenantUsage(ctx, tenant)
	if err != nil {
		return fmt.Errorf("read the usage of tenant %s: %w", tenant, err)
	}
	full := func(used int64, limit int) bool { return limit > 0 && used >= int64(limit) }
	sessions, contexts, heaps := full(use.Sessions, q.limits.Sessions), full(use.Contexts, q.limits.Sessions), full(use.TaggedHeaps, q.limits.TaggedHeaps)
	known := true
	switch {
	case sessions && k.NewSession:
		known = false
	case sessions && k.Session != "":
		known, err = q.meter.HasSession(ctx, tenant, k.Session)
	}
	if err == nil && !known {
		return &LimitError{
			Limit: "limit-sessions", What: "sessions, logical and named", Value: float64(q.limits.Sessions), Used: float64(use.Sessions), RetryAfter: storedRetry,
			Permanent: true, Advice: "use an existing session, or ask the operator to raise it",
		}
	}
	if k.NewShortName && full(use.ShortNames, q.limits.Sessions) {
		return &LimitError{
			Limit: "limit-sessions", What: "short names of sessions", Value: float64(q.limits.Sessions), Used: float64(use.ShortNames), RetryAfter: storedRetry,
			Permanent: true, Advice: "use the id of the session, or ask the operator to raise it",
		}
	}
	if err == nil && contexts && k.Context != "" {
		known, err = q.meter.HasContext(ctx, tenant, k.Context)
	}
	if err == nil && !known {
		return &LimitError{
			Limit: "limit-sessions", What: "conversation contexts", Value: float64(q.limits.Sessions), Used: float64(use.Contexts), RetryAfter: storedRetry,
			Permanent: true, Advice: "use a session that has a context, or ask the operator to raise it",
		}
	}
	if err == nil && heaps && k.Heap != "" {
		known, err = q.meter.HasTaggedHeap(ctx, tenant, k.Heap)
	}
	if err == nil && !known {
		return &LimitError{
			Limit: "limit-tagged-heaps", What: "tagged heaps that no run has left", Value: float64(q.limits.TaggedHeaps), Used: float64(use.TaggedHeaps), RetryAfter: storedRetry,
			Permanent: true, Advice: "tag heaps that runs have left, or ask the operator to raise it",
		}
	}
	return err
}
