package cli

import (
	"fmt"

	"daybook/embed"
)

const defaultHTTPAddr = "127.0.0.1:8080"

// httpFlags are the flags of embed.HTTPOptions.
type httpFlags struct {
	CertFile              string   `name:"tls-cert" option:"HTTP.CertFile" after:"auth-bare-scopes" help:"TLS certificate, in PEM; HTTP then uses TLS. A replaced file is read again." placeholder:"FILE"`
	KeyFile               string   `name:"tls-key" option:"HTTP.KeyFile" after:"tls-cert" help:"Private key of the TLS certificate, in PEM." placeholder:"FILE"`
	PublicURL             string   `name:"public-url" option:"HTTP.PublicURL" after:"tls-key" help:"URL that clients use if a proxy changes it; its host is accepted like --allowed-host." placeholder:"URL"`
	Connections           int      `name:"limit-connections" option:"HTTP.MaxConnections" example:"1024" after:"limit-tagged-heaps" help:"Open HTTP connections; 0 is half of the process's limit of open files, at most 4096." default:"0" placeholder:"N"`
	ConnectionsPerAddress int      `name:"limit-connections-per-address" option:"HTTP.MaxConnectionsPerAddress" example:"256" after:"limit-connections" help:"Open HTTP connections per client address; 0 is half of --limit-connections, and all of them for a loopback address." default:"0" placeholder:"N"`
	HTTPAddr              string   `name:"http-addr" option:"HTTP.Addr" help:"Listen address of HTTP and MCP. Default: 127.0.0.1:8080, or a free port if it is busy." placeholder:"HOST:PORT" xor:"http"`
	HTTPPort              int      `name:"http-port" help:"Listen port, short for --http-addr 127.0.0.1:PORT." placeholder:"PORT" xor:"http"`
	SSEPort               int      `name:"sse-port" help:"Listen port, as --http-port; the legacy SSE transport uses the same address." placeholder:"PORT" xor:"http"`
	AllowedHosts          []string `name:"allowed-host" option:"HTTP.Hosts" after:"accept-damage" help:"Host header to accept besides loopback names; may be repeated." placeholder:"HOST"`
}

func (f httpFlags) options() embed.HTTPOptions {
	o := embed.HTTPOptions{
		Addr: f.HTTPAddr, Hosts: f.AllowedHosts, PublicURL: f.PublicURL, CertFile: f.CertFile, KeyFile: f.KeyFile,
		MaxConnections: f.Connections, MaxConnectionsPerAddress: f.ConnectionsPerAddress,
	}
	for _, port := range []int{f.HTTPPort, f.SSEPort} {
		if port != 0 {
			o.Addr = fmt.Sprintf("127.0.0.1:%d", port)
		}
	}
	if o.Addr == "" {
		o.Addr, o.Fallback = defaultHTTPAddr, true
	}
	return o
}
