package catalog

import (
	"context"
	"fmt"

	"daybook/events"
	"daybook/ledger"
)

// Sessions is the write side of logical sessions. *ledger.Ledger implements it.
type Sessions interface {
	OpenSession(ctx context.Context, o ledger.Opening) (ledger.OpenResult, error)
	ExpandSession(ctx context.Context, t ledger.Expansion) (ledger.ExpansionResult, error)
}

// Snapshots returns the entries that are available now. *Catalog implements it.
type Snapshots interface {
	Snapshot(ctx context.Context, tenant string) *Snapshot
}

// Opening holds the arguments of Open.
type Opening struct {
	ledger.Opening
	// Seeds and Aliases are the arguments of Snapshot.Resolve. There MUST be 1 to
	// MaxSeeds seeds.
	Seeds   []string
	Aliases map[string]string
}

// OpenResult is the result of Open.
type OpenResult struct {
	ledger.OpenResult
	Taught ledger.ExpansionResult
	// Offered holds the entries that the catalog offered.
	Offered *Snapshot
	// Recorded is the position of the last recorded event; 0 if nothing was recorded.
	Recorded uint64
}

// SeedsError is returned for no seeds and for more than MaxSeeds.
type SeedsError struct{ Count int }

// Error returns a message with the limits.
func (e *SeedsError) Error() string {
	return fmt.Sprintf("%d seeds: give 1 to %d", e.Count, MaxSeeds)
}

// Open opens a logical session and expands it with the entries of seeds. If the session of
// the intent exists, it only expands that session. The error is a *SeedsError or an
// *UnknownError, and then nothing is recorded, or an error of the ledger.
func Open(ctx context.Context, from Snapshots, sessions Sessions, o Opening) (OpenResult, error) {
	if n := len(o.Seeds); n == 0 || n > MaxSeeds {
		return OpenResult{}, &SeedsError{Count: n}
	}
	now := from.Snapshot(ctx, o.Tenant)
	entries, err := now.Resolve(o.Seeds, o.Aliases)
	if err != nil {
		return OpenResult{}, err
	}
	opened, err := sessions.OpenSession(ctx, o.Opening)
	if err != nil {
		return OpenResult{}, err //nolint:wrapcheck // the ledger's errors are answers
	}
	t := ledger.Expansion{
		Tenant: o.Tenant, Session: opened.SessionID, Primary: PrimarySource(entries), Sources: now.sourceHashes(), Known: now.hashes(),
		Actor: o.Actor, Traceparent: o.Traceparent,
	}
	for _, e := range entries {
		t.Entries = append(t.Entries, events.TaughtEntry{ID: e.ID, SHA256: e.hash()})
	}
	taught, err := sessions.ExpandSession(ctx, t)
	if err != nil {
		return OpenResult{}, err //nolint:wrapcheck // the ledger's errors are answers
	}
	return OpenResult{OpenResult: opened, Taught: taught, Offered: now, Recorded: max(opened.Seq, taught.Seq)}, nil
}

// Added returns the entries that are new to the session, in the order of their symbols.
func (o OpenResult) Added() []Symbol {
	list := make([]Symbol, len(o.Taught.Added))
	for i, one := range o.Taught.Added {
		list[i] = Symbol{Name: one.Symbol, ID: one.ID}
	}
	return list
}
