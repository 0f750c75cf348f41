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

// OIDC selects an OpenID Connect issuer whose tokens are accepted. Issuer and Audience
// are required.
type OIDC struct {
	// Issuer is the URL of the issuer, exactly as in its tokens.
	Issuer string
	// Audience is the audience (aud) that tokens must name.
	Audience string
	// TenantClaim is the claim that holds the tenant. Default: "tenant". Tenant, if
	// set, is the tenant of all tokens.
	TenantClaim, Tenant string
	// ScopeClaim is the claim that holds the scopes. Default: "scope", then "scp".
	ScopeClaim string
	// BareScopes accepts the scopes sign and admin also without the prefix daybook:.
	// Any service that the issuer lets request this audience can then name them.
	BareScopes bool
}

// Limits bound what each tenant may use. 0 is unlimited in every field.
type Limits = access.Limits

// authenticator returns the authenticator of the options, or nil if no token is
// required.
func authenticator(o Options) (access.Authenticator, error) {
	var a access.Authenticators
	if o.Access.TokenFile != "" {
		f, err := access.OpenTokens(o.Access.TokenFile, o.Logger, nil)
		if err != nil {
			return nil, ofField("Access.TokenFile", err)
		}
		a.Tokens = f
	}
	if o.Access.OIDC.Issuer != "" {
		if o.Access.OIDC.Tenant != "" {
			if err := access.CheckTenant(o.Access.OIDC.Tenant); err != nil {
				return nil, ofField("Access.OIDC.Tenant", err)
			}
		}
		i, err := access.NewIssuer(access.OIDCOptions{
			Issuer: o.Access.OIDC.Issuer, Audience: o.Access.OIDC.Audience,
			TenantClaim: o.Access.OIDC.TenantClaim, Tenant: o.Access.OIDC.Tenant, ScopeClaim: o.Access.OIDC.ScopeClaim, BareScopes: o.Access.OIDC.BareScopes,
			Logger: o.Logger,
		})
		if err != nil {
			return nil, ofField("Access.OIDC.Issuer", err)
		}
		a.Issuer = i
	}
	if a == (access.Authenticators{}) {
		return nil, nil
	}
	return a, nil
}

// issuers returns the URLs where clients get tokens.
func (d *Daybook) issuers() []string {
	if d.opts.Access.OIDC.Issuer == "" {
		return nil
	}
	return []string{d.opts.Access.OIDC.Issuer}
}

// openAccess prepares the authentication and the limits of tenants.
func (d *Daybook) openAccess(context.Context) error {
	var err error
	if d.auth, err = authenticator(d.opts); err != nil {
		return err
	}
	d.quotas = access.NewQuotas(d.opts.Access.Limits, meter{d}, nil)
	return nil
}

// meter reads the usage of tenants from the projections once they are open.
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

// linkedKey marks the context of a request whose client asks the next owner when this
// one ends, if link.Linked cannot report that.
type linkedKey struct{}

// admit is ledger.Options.Admit. It refuses runs while the server drains, unless the
// next owner answers the client, while free disk space is below the reserve, and of
// tenants above a quota.
func (d *Daybook) admit(ctx context.Context, s *ledger.Submission) (done func(seq uint64), err error) {
	if d.draining.Load() && !link.IsLinked(ctx) && ctx.Value(linkedKey{}) == nil {
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

// overLimit returns the error of the ledger for a limit.
func overLimit(over *access.LimitError) *ledger.Error {
	return &ledger.Error{Code: ledger.CodeExhausted, Message: over.Error(), Err: over}
}

// reserve counts a run against the quotas of its tenant. If the tenant may have no
// further conversation context, the run has none, and a warning.
func (d *Daybook) reserve(ctx context.Context, s *ledger.Submission) (*access.Reservation, error) {
	if err := d.quotas.CheckKept(ctx, s.Tenant, access.Kept{Session: s.Session}); err != nil {
		return nil, err
	}
	if s.Context != nil {
		err := d.quotas.CheckKept(ctx, s.Tenant, access.Kept{Context: s.Context.Key})
		if over, limited := errors.AsType[*access.LimitError](err); limited {
			s.Context = nil
			s.Warnings = append(slices.Clip(s.Warnings), "the run is in no conversation context: "+over.Error())
		} else if err != nil {
			return nil, err
		}
	}
	return d.quotas.Admit(ctx, s.Tenant)
}

// admission is the write side for clients, with the limits of their tenants.
type admission struct {
	*ledger.Ledger
	d *Daybook
}

// SetTags refuses tags, which are stored with heaps, to a tenant whose heaps exceed
// their quota. The tenant can still clear tags.
func (g admission) SetTags(ctx context.Context, tenant, heap string, tags map[string]string, actor events.Actor) (uint64, error) {
	if len(tags) > 0 {
		err := g.d.quotas.CheckHeaps(ctx, tenant)
		if over, limited := errors.AsType[*access.LimitError](err); limited {
			return 0, overLimit(over)
		}
		if err != nil {
			return 0, fmt.Errorf("set the tags of heap %s: %w", heap, err)
		}
	}
	return g.Ledger.SetTags(ctx, tenant, heap, tags, actor)
}

// AssignRef gives a session a short name. If the tenant has as many short names as it
// may have, a new one is the id of the session, which clients use in the same way.
func (g admission) AssignRef(ctx context.Context, tenant, holder, session string) (ref string, seq uint64, err error) {
	ref, seq, err = g.Ledger.AssignRef(ctx, tenant, holder, session)
	if over, limited := errors.AsType[*access.LimitError](err); limited && over.Permanent {
		return session, 0, nil
	}
	return ref, seq, err
}
