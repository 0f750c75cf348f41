package cli

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"daybook/embed"
)

const defaultHTTPAddr = "127.0.0.1:8080"

const maxPort = 65535

// httpFlags are the flags of embed.HTTPOptions.
type httpFlags struct {
	CertFile              string   `name:"tls-cert" option:"HTTP.CertFile" after:"auth-bare-scopes" help:"TLS certificate, in PEM; HTTP then uses TLS. A replaced file is read again." placeholder:"FILE"`
	KeyFile               string   `name:"tls-key" option:"HTTP.KeyFile" after:"tls-cert" help:"Private key of the TLS certificate, in PEM." placeholder:"FILE"`
	PublicURL             string   `name:"public-url" option:"HTTP.PublicURL" after:"tls-key" help:"URL that clients use if a proxy changes it; its host is accepted like --allowed-host." placeholder:"URL"`
	Connections           int      `name:"limit-connections" option:"HTTP.MaxConnections" example:"1024" after:"limit-tagged-heaps" help:"Open HTTP connections; 0 is half of the process's limit of open files, at most 4096." default:"0" placeholder:"N"`
	ConnectionsPerAddress int      `name:"limit-connections-per-address" option:"HTTP.MaxConnectionsPerAddress" example:"256" after:"limit-connections" help:"Open HTTP connections per client address; 0 is half of --limit-connections, and all of them for a loopback address." default:"0" placeholder:"N"`
	HTTPAddr              string   `name:"http-addr" option:"HTTP.Addr" help:"Listen address of HTTP and MCP. Default: 127.0.0.1:8080, or a free port if it is busy." placeholder:"HOST:PORT" xor:"http"`
	HTTPPort              *int     `name:"http-port" help:"Listen port, short for --http-addr 127.0.0.1:PORT; 0 is a free port." placeholder:"PORT" xor:"http"`
	SSEPort               *int     `name:"sse-port" help:"Listen port, as --http-port; the legacy SSE transport uses the same address." placeholder:"PORT" xor:"http"`
	AllowedHosts          []string `name:"allowed-host" option:"HTTP.Hosts" after:"accept-damage" help:"Host header to accept besides loopback names; may be repeated." placeholder:"HOST"`
}

// options returns an error if a port is out of range.
func (f httpFlags) options() (embed.HTTPOptions, error) {
	o := embed.HTTPOptions{
		Addr: f.HTTPAddr, Hosts: f.AllowedHosts, PublicURL: f.PublicURL, CertFile: f.CertFile, KeyFile: f.KeyFile,
		MaxConnections: f.Connections, MaxConnectionsPerAddress: f.ConnectionsPerAddress,
	}
	for _, flag := range []struct {
		name string
		port *int
	}{{"--http-port", f.HTTPPort}, {"--sse-port", f.SSEPort}} { // variables may set both: the last one applies
		switch {
		case flag.port == nil:
		case *flag.port < 0 || *flag.port > maxPort:
			return o, fmt.Errorf("%s is %d: the range is 0 to %d, 0 is a free port; for example %s 8080", flag.name, *flag.port, maxPort, flag.name)
		default:
			o.Addr = fmt.Sprintf("127.0.0.1:%d", *flag.port)
		}
	}
	if o.Addr == "" {
		o.Addr, o.Fallback = defaultHTTPAddr, true
	}
	return o, checkPort("--http-addr", o.Addr, "8080")
}

// checkPort returns an error if the port of an address is a number out of range. example
// is a port for the message.
func checkPort(flag, addr, example string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil //nolint:nilerr // package embed checks the form
	}
	if n, err := strconv.Atoi(port); err == nil && (n < 0 || n > maxPort) {
		return fmt.Errorf("%s %s: the port is %d, and the range is 0 to %d; for example %s %s", flag, addr, n, maxPort, flag, net.JoinHostPort(host, example))
	}
	return nil
}

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
	OutputBytes int64   `name:"limit-output-bytes" option:"Access.Limits.OutputBytes" example:"1073741824" help:"Stored output and artifacts per tenant, in bytes; no run is accepted above it. 0 is unlimited." default:"0" placeholder:"BYTES"`
	HeapBytes   int64   `name:"limit-heap-bytes" option:"Access.Limits.HeapBytes" example:"1073741824" help:"Stored heaps per tenant, in bytes of restored size; no run is accepted and no tags are set above it. 0 is unlimited." default:"0" placeholder:"BYTES"`
	Sessions    int     `name:"limit-sessions" option:"Access.Limits.Sessions" help:"Sessions per tenant, logical and named ones together, and as many conversation contexts; more are refused with 429. Also short names of sessions; further sessions have only ids. 0 is unlimited." default:"100000" placeholder:"N"`
	TaggedHeaps int     `name:"limit-tagged-heaps" option:"Access.Limits.TaggedHeaps" help:"Tagged heaps per tenant that no run has left; more are refused with 429. 0 is unlimited." default:"100000" placeholder:"N"`
	Streams     *int    `name:"limit-streams" option:"Access.Limits.Streams" example:"64" help:"Open streams per principal: server-sent events, events with follow, session replays, MCP streams and subscriptions; 0 is unlimited. Default: 64 with --auth, else unlimited." placeholder:"N"`
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

const defaultNATSAddr = "127.0.0.1:4222"

// natsFlags are the flags of embed.NATSOptions.
type natsFlags struct {
	NATSAddr string `name:"nats-addr" option:"NATS.Addr" help:"Listen address of NATS for subscribers, or off. Default: 127.0.0.1:4222, or a free port if it is busy; off with --auth." placeholder:"HOST:PORT"`
	NATSURL  string `name:"nats-url" option:"NATS.URL" help:"URL of an outside NATS server or cluster that stores the ledger." placeholder:"URL"`
}

// options returns the options of a server. With tokens, which separate tenants, NATS
// has a listener only on request.
func (f natsFlags) options(tokens bool) embed.NATSOptions {
	o := embed.NATSOptions{URL: f.NATSURL}
	switch {
	case f.NATSAddr == "off" || f.NATSURL != "":
	case f.NATSAddr == "" && tokens:
	case f.NATSAddr == "":
		o.Addr, o.Fallback = defaultNATSAddr, true
	default:
		o.Addr = f.NATSAddr
	}
	return o
}
