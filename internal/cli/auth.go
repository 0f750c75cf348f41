package cli

import (
	"errors"
	"fmt"
	"strings"

	"daybook/embed"
)

// authFlags select who may use a server, and what each tenant may use of it.
type authFlags struct {
	Auth        []string `help:"Bearer tokens to require: tokens=FILE (created by \"daybook token create\") or oidc=ISSUER (an OpenID Connect issuer); one of each at most." placeholder:"KIND=VALUE" sep:"none"`
	Audience    string   `name:"auth-audience" help:"Audience (aud) that the issuer's tokens must name; required with oidc." placeholder:"NAME"`
	TenantClaim string   `name:"auth-tenant-claim" help:"Claim of the issuer's tokens that names the tenant." default:"tenant" placeholder:"NAME"`
	Tenant      string   `name:"auth-tenant" help:"Tenant of all the issuer's tokens, instead of a claim." placeholder:"NAME"`
	ScopeClaim  string   `name:"auth-scope-claim" help:"Claim of the issuer's tokens that holds the scopes. Default: scope, then scp." placeholder:"NAME"`
	BareScopes  bool     `name:"auth-bare-scopes" help:"Accept the issuer's scopes sign and admin also without the prefix daybook:. A token that has such a scope for another service of the audience then has it here."`

	CertFile  string `name:"tls-cert" help:"TLS certificate, in PEM; HTTP then uses TLS. A replaced file is read again." placeholder:"FILE"`
	KeyFile   string `name:"tls-key" help:"Private key of the TLS certificate, in PEM." placeholder:"FILE"`
	PublicURL string `name:"public-url" help:"URL that clients use if a proxy changes it; its host is accepted like --allowed-host." placeholder:"URL"`

	Requests              float64 `name:"limit-requests" help:"HTTP requests, MCP messages and ACP requests per second and tenant; 0 is unlimited." default:"0" placeholder:"N"`
	Runs                  int     `name:"limit-runs" help:"Queued and running runs per tenant; more are refused with 429. 0 is unlimited." default:"10000" placeholder:"N"`
	OutputBytes           int64   `name:"limit-output-bytes" help:"Stored output per tenant, in bytes; no run is accepted above it. 0 is unlimited." default:"0" placeholder:"BYTES"`
	HeapBytes             int64   `name:"limit-heap-bytes" help:"Stored heaps per tenant, in bytes of restored size; no run is accepted and no tags are set above it. 0 is unlimited." default:"0" placeholder:"BYTES"`
	Sessions              int     `name:"limit-sessions" help:"Sessions per tenant, logical and named ones together, and as many conversation contexts; more are refused with 429. Also short names of sessions; further sessions have only ids. 0 is unlimited." default:"100000" placeholder:"N"`
	TaggedHeaps           int     `name:"limit-tagged-heaps" help:"Tagged heaps per tenant that no run has left; more are refused with 429. 0 is unlimited." default:"100000" placeholder:"N"`
	Connections           int     `name:"limit-connections" help:"Open HTTP connections; 0 is half of the process's limit of open files, at most 4096." default:"0" placeholder:"N"`
	ConnectionsPerAddress int     `name:"limit-connections-per-address" help:"Open HTTP connections per client address; 0 is half of --limit-connections, and all of them for a loopback address." default:"0" placeholder:"N"`
	Streams               *int    `name:"limit-streams" help:"Open event streams per principal; 0 is unlimited. Default: 64 with --auth, else unlimited." placeholder:"N"`
	Turns                 int     `name:"limit-session-turns" help:"Waiting turns per logical session; 0 is unlimited." default:"1000" placeholder:"N"`
}

// defaultStreams limits the open streams of a principal on a server with --auth.
const defaultStreams = 64

func (f authFlags) apply(o *embed.Options) error {
	for _, spec := range f.Auth {
		kind, value, ok := strings.Cut(spec, "=")
		switch {
		case !ok || value == "":
			return fmt.Errorf("--auth %q: give tokens=FILE or oidc=ISSUER", spec)
		case kind == "tokens" && o.Access.TokenFile == "":
			o.Access.TokenFile = value
		case kind == "oidc" && o.Access.OIDC.Issuer == "":
			o.Access.OIDC = embed.OIDC{Issuer: value, Audience: f.Audience, TenantClaim: f.TenantClaim, Tenant: f.Tenant, ScopeClaim: f.ScopeClaim, BareScopes: f.BareScopes}
		case kind == "tokens" || kind == "oidc":
			return fmt.Errorf("--auth %s=... is given twice", kind)
		default:
			return fmt.Errorf("--auth %q: give tokens=FILE or oidc=ISSUER", spec)
		}
	}
	switch {
	case o.Access.OIDC.Issuer == "" && (f.Audience != "" || f.Tenant != "" || f.ScopeClaim != "" || f.BareScopes):
		return errors.New("--auth-audience, --auth-tenant, --auth-scope-claim and --auth-bare-scopes need --auth oidc=ISSUER")
	case o.Access.OIDC.Issuer != "" && f.Audience == "":
		return errors.New("--auth oidc=ISSUER needs --auth-audience: the name that the issuer gives this service in its tokens (aud)")
	}
	if (f.CertFile == "") != (f.KeyFile == "") {
		return errors.New("--tls-cert and --tls-key belong together: give both or none")
	}
	o.HTTP.CertFile, o.HTTP.KeyFile, o.HTTP.PublicURL = f.CertFile, f.KeyFile, f.PublicURL
	o.Access.Limits = embed.Limits{RequestsPerSecond: f.Requests, Runs: f.Runs, OutputBytes: f.OutputBytes, HeapBytes: f.HeapBytes, Sessions: f.Sessions, TaggedHeaps: f.TaggedHeaps}
	o.HTTP.MaxConnections, o.HTTP.MaxConnectionsPerAddress = f.Connections, f.ConnectionsPerAddress
	switch {
	case f.Streams != nil:
		o.Access.Limits.Streams = *f.Streams
	case len(f.Auth) > 0:
		o.Access.Limits.Streams = defaultStreams
	}
	if err := f.checkRanges(); err != nil {
		return err
	}
	o.Access.SessionTurns = f.Turns
	if f.Turns == 0 {
		o.Access.SessionTurns = -1
	}
	return nil
}
