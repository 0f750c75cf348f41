package embed

import (
	"context"

	"daybook/internal/admission"
	"daybook/internal/web/access"
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

// Limits are the limits of each tenant. 0 is unlimited in every field.
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
	d.gate = &admission.Gate{
		Quotas:     d.quotas,
		Changes:    new(access.Changes),
		Applied:    func() access.Applied { return d.projections },
		DiskLow:    func() error { return d.disk.Low() },
		IsDraining: d.draining.Load,
	}
	return nil
}

// commands returns the write side for clients.
func (d *Daybook) commands() admission.Commands {
	return admission.Commands{Ledger: d.ledger, Gate: d.gate}
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
