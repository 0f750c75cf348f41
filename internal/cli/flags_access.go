package cli

import (
	"errors"
	"fmt"
	"strings"

	"daybook/embed"
)

// accessFlags are the flags of embed.AccessOptions.
type accessFlags struct {
	Auth        []string `name:"auth" help:"Bearer tokens to require: tokens=FILE (created by \"daybook token create\") or oidc=ISSUER (an OpenID Connect issuer); one of each at most." placeholder:"KIND=VALUE" sep:"none"`
	Audience    string   `name:"auth-audience" option:"Access.OIDC.Audience" help:"Audience (aud) that the issuer's tokens must name; required with oidc." placeholder:"NAME"`
	TenantClaim string   `name:"auth-tenant-claim" option:"Access.OIDC.TenantClaim" help:"Claim of the issuer's tokens that names the tenant." default:"tenant" placeholder:"NAME"`
	Tenant      string   `name:"auth-tenant" option:"Access.OIDC.Tenant" help:"Tenant of all the issuer's tokens, instead of a claim." placeholder:"NAME"`
	ScopeClaim  string   `name:"auth-scope-claim" option:"Access.OIDC.ScopeClaim" help:"Claim of the issuer's tokens that holds the scopes. Default: scope, then scp." placeholder:"NAME"`
	BareScopes  bool     `name:"auth-bare-scopes" option:"Access.OIDC.BareScopes" help:"Accept the issuer's scopes sign and admin also without the prefix daybook:. A token that has such a scope for another service of the audience then has it here."`

	Requests    float64 `name:"limit-requests" option:"Access.Limits.RequestsPerSecond" example:"50" help:"HTTP requests, MCP messages and ACP requests per second and tenant; 0 is unlimited." default:"0" placeholder:"N"`
	Runs        int     `name:"limit-runs" option:"Access.Limits.Runs" help:"Queued and running runs per tenant; more are refused with 429. 0 is unlimited." default:"10000" placeholder:"N"`
	OutputBytes int64   `name:"limit-output-bytes" option:"Access.Limits.OutputBytes" example:"1073741824" help:"Stored output per tenant, in bytes; no run is accepted above it. 0 is unlimited." default:"0" placeholder:"BYTES"`
	HeapBytes   int64   `name:"limit-heap-bytes" option:"Access.Limits.HeapBytes" example:"1073741824" help:"Stored heaps per tenant, in bytes of restored size; no run is accepted and no tags are set above it. 0 is unlimited." default:"0" placeholder:"BYTES"`
	Sessions    int     `name:"limit-sessions" option:"Access.Limits.Sessions" help:"Sessions per tenant, logical and named ones together, and as many conversation contexts; more are refused with 429. Also short names of sessions; further sessions have only ids. 0 is unlimited." default:"100000" placeholder:"N"`
	TaggedHeaps int     `name:"limit-tagged-heaps" option:"Access.Limits.TaggedHeaps" help:"Tagged heaps per tenant that no run has left; more are refused with 429. 0 is unlimited." default:"100000" placeholder:"N"`
	Streams     *int    `name:"limit-streams" option:"Access.Limits.Streams" example:"64" help:"Open event streams per principal; 0 is unlimited. Default: 64 with --auth, else unlimited." placeholder:"N"`
	Turns       int     `name:"limit-session-turns" option:"Access.SessionTurns" help:"Waiting turns per logical session; 0 is unlimited." default:"1000" placeholder:"N"`
}

// defaultStreams limits the open streams of a principal on a server with --auth.
const defaultStreams = 64

// options returns an error if --auth has no valid form or lacks other flags.
func (f accessFlags) options() (embed.AccessOptions, error) {
	o := embed.AccessOptions{
		Limits:       embed.Limits{RequestsPerSecond: f.Requests, Runs: f.Runs, OutputBytes: f.OutputBytes, HeapBytes: f.HeapBytes, Sessions: f.Sessions, TaggedHeaps: f.TaggedHeaps},
		SessionTurns: zeroIsNone(f.Turns),
	}
	switch {
	case f.Streams != nil:
		o.Limits.Streams = *f.Streams
	case len(f.Auth) > 0:
		o.Limits.Streams = defaultStreams
	}
	for _, spec := range f.Auth {
		kind, value, ok := strings.Cut(spec, "=")
		switch {
		case !ok || value == "":
			return o, fmt.Errorf("--auth %q: give tokens=FILE or oidc=ISSUER", spec)
		case kind == "tokens" && o.TokenFile == "":
			o.TokenFile = value
		case kind == "oidc" && o.OIDC.Issuer == "":
			o.OIDC = embed.OIDC{Issuer: value, Audience: f.Audience, TenantClaim: f.TenantClaim, Tenant: f.Tenant, ScopeClaim: f.ScopeClaim, BareScopes: f.BareScopes}
		case kind == "tokens" || kind == "oidc":
			return o, fmt.Errorf("--auth %s=... is given twice", kind)
		default:
			return o, fmt.Errorf("--auth %q: give tokens=FILE or oidc=ISSUER", spec)
		}
	}
	switch {
	case o.OIDC.Issuer == "" && (f.Audience != "" || f.Tenant != "" || f.ScopeClaim != "" || f.BareScopes):
		return o, errors.New("--auth-audience, --auth-tenant, --auth-scope-claim and --auth-bare-scopes need --auth oidc=ISSUER")
	case o.OIDC.Issuer != "" && f.Audience == "":
		return o, errors.New("--auth oidc=ISSUER needs --auth-audience: the name that the issuer gives this service in its tokens (aud)")
	}
	return o, nil
}
