package embed

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

// OIDC names an OpenID Connect issuer whose tokens are accepted. Issuer and
// Audience are required.
type OIDC struct {
	// Issuer is its URL, exactly as its tokens name it.
	Issuer string
	// Audience is what tokens must be made out for.
	Audience string
	// TenantClaim names the claim that holds the tenant; default "tenant". Tenant,
	// if set, is everybody's instead.
	TenantClaim, Tenant string
	// ScopeClaim names the claim that holds the scopes; default "scope", then
	// "scp".
	ScopeClaim string
	// BareScopes believes the scopes sign and admin also without the prefix daybook:.
	// Any service that the issuer lets ask for this audience can then name them.
	BareScopes bool
}

// Limits bound what each tenant may use; 0 is unlimited everywhere.
type Limits struct {
	// RequestsPerSecond is how many HTTP requests it may make.
	RequestsPerSecond float64
	// Runs is how many runs may be queued or running.
	Runs int
	// OutputBytes and HeapBytes are how much may be stored when another run is
	// accepted.
	OutputBytes, HeapBytes int64
	// Streams is how many event streams each of its principals may hold open.
	Streams int
	// Sessions is how many sessions it may have, logical and named ones together, and
	// how many conversation contexts.
	Sessions int
	// TaggedHeaps is how many heaps may have tags without a run that has left them.
	TaggedHeaps int
}

// authenticator reads the options; it is nil when no token is asked for.
func authenticator(o Options) (access.Authenticator, error) {
	var a access.Authenticators
	if o.TokenFile != "" {
		f, err := access.OpenTokens(o.TokenFile, o.Logger, nil)
		if err != nil {
			return nil, ofField("TokenFile", err)
		}
		a.Tokens = f
	}
	if o.OIDC.Issuer != "" {
		if o.OIDC.Tenant != "" {
			if err := access.CheckTenant(o.OIDC.Tenant); err != nil {
				return nil, ofField("OIDC.Tenant", err)
			}
		}
		i, err := access.NewIssuer(access.OIDCOptions{
			Issuer: o.OIDC.Issuer, Audience: o.OIDC.Audience,
			TenantClaim: o.OIDC.TenantClaim, Tenant: o.OIDC.Tenant, ScopeClaim: o.OIDC.ScopeClaim, BareScopes: o.OIDC.BareScopes,
			Logger: o.Logger,
		})
		if err != nil {
			return nil, ofField("OIDC.Issuer", err)
		}
		a.Issuer = i
	}
	if a == (access.Authenticators{}) {
		return nil, nil
	}
	return a, nil
}

// issuers are where clients get tokens.
func (d *Daybook) issuers() []string {
	if d.opts.OIDC.Issuer == "" {
		return nil
	}
	return []string{d.opts.OIDC.Issuer}
}

// openAccess sets up the authentication and the limits of tenants.
func (d *Daybook) openAccess(context.Context) error {
	var err error
	if d.auth, err = authenticator(d.opts); err != nil {
		return err
	}
	limits := access.Limits(d.opts.Limits)
	if err := limits.Check(); err != nil {
		return err
	}
	d.quotas = access.NewQuotas(limits, meter{d}, nil)
	return nil
}

// meter reads usage off the projections, once there are any.
type meter struct{ d *Daybook }

func (m meter) TenantUsage(ctx context.Context, tenant string) (access.Usage, error) {
	u, err := m.d.projections.TenantUsage(ctx, tenant)
	return access.Usage(u), err
}

func (m meter) HasSession(ctx context.Context, tenant, name string) (bool, error) {
	return m.d.projections.HasSession(ctx, tenant, name)
}

func (m meter) HasContext(ctx context.Context, tenant, key string) (bool, error) {
	return m.d.projections.HasContext(ctx, tenant, key)
}

func (m meter) HasTaggedHeap(ctx context.Context, tenant, heap string) (bool, error) {
	return m.d.projections.HasTaggedHeap(ctx, tenant, heap)
}

// linkedKey is the key of a mark in the context of a request whose client asks the next
// owner when this one ends, where link.Linked cannot report it.
type linkedKey struct{}

// admit is ledger.Options.Admit. It refuses runs while the server drains, unless the next
// owner answers the client, while the disk is below the reserve, and of tenants that are
// over a quota.
func (d *Daybook) admit(ctx context.Context, s *ledger.Submission) (done func(seq uint64), err error) {
	if d.draining.Load() && !link.Linked(ctx) && ctx.Value(linkedKey{}) == nil {
		return nil, &ledger.Error{Code: ledger.CodeUnavailable, Message: "the server is shutting down and takes no new runs; try again when it is back"}
	}
	if err := d.disk.isLow(); err != nil {
		return nil, err
	}
	place, err := d.reserve(ctx, s)
	if over, limited := errors.AsType[*access.LimitError](err); limited {
		return nil, overLimit(over)
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

// overLimit is the answer of the ledger about a limit.
func overLimit(over *access.LimitError) *ledger.Error {
	return &ledger.Error{Code: ledger.CodeExhausted, Message: over.Error(), Err: over}
}

// reserve counts a run against the quotas of its tenant. Without space for another
// conversation context the run has none, and a warning.
func (d *Daybook) reserve(ctx context.Context, s *ledger.Submission) (*access.Reservation, error) {
	if err := d.quotas.Keep(ctx, s.Tenant, access.Kept{Session: s.Session}); err != nil {
		return nil, err
	}
	if s.Context != nil {
		err := d.quotas.Keep(ctx, s.Tenant, access.Kept{Context: s.Context.Key})
		if over, limited := errors.AsType[*access.LimitError](err); limited {
			s.Context = nil
			s.Warnings = append(slices.Clip(s.Warnings), "the run is in no conversation context: "+over.Error())
		} else if err != nil {
			return nil, err
		}
	}
	return d.quotas.Admit(ctx, s.Tenant)
}

// admission is the write side as clients reach it.
type admission struct {
	*ledger.Ledger
	d *Daybook
}

// SetTags refuses tags, which are stored with heaps, to a tenant whose heaps are over
// their quota. It can still clear them.
func (g admission) SetTags(ctx context.Context, tenant, heap string, tags map[string]string, actor events.Actor) (uint64, error) {
	if len(tags) > 0 {
		err := g.d.quotas.Heaps(ctx, tenant)
		if over, limited := errors.AsType[*access.LimitError](err); limited {
			return 0, overLimit(over)
		}
		if err != nil {
			return 0, fmt.Errorf("set the tags of heap %s: %w", heap, err)
		}
	}
	return g.Ledger.SetTags(ctx, tenant, heap, tags, actor)
}

// AssignRef gives a session a short name. For a tenant that has as many of them as it may
// have, a new one is the id of the session: clients use it in the same way.
func (g admission) AssignRef(ctx context.Context, tenant, holder, session string) (ref string, seq uint64, err error) {
	ref, seq, err = g.Ledger.AssignRef(ctx, tenant, holder, session)
	if over, limited := errors.AsType[*access.LimitError](err); limited && over.Permanent {
		return session, 0, nil
	}
	return ref, seq, err
}
