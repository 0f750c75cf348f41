package httpapi

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"daybook/ledger"
)

// maxBody bounds every request body, in bytes.
const maxBody = ledger.MaxRequestBytes

// guard refuses requests that a browser may have been tricked into sending: a
// foreign Host (DNS rebinding) and a foreign origin (cross-site requests).
type guard struct {
	hosts map[string]bool
	cross *http.CrossOriginProtection
}

func newGuard(hosts []string) (*guard, error) {
	g := &guard{hosts: map[string]bool{}, cross: http.NewCrossOriginProtection()}
	for _, h := range hosts {
		if err := CheckHost(h); err != nil {
			return nil, err
		}
		g.hosts[strings.ToLower(h)] = true
	}
	return g, nil
}

// CheckHost returns an error for a text that is no value of a Host header.
func CheckHost(host string) error {
	if host == "" || strings.ContainsAny(host, "/*@ ") {
		return fmt.Errorf("host %q: give a name or address with an optional port, without scheme or path", host)
	}
	return nil
}

// check returns the refusal, or nil.
func (g *guard) check(r *http.Request) *failure {
	if !g.allowedHost(r.Host) {
		return fail(http.StatusForbidden, codeForbidden, "Host",
			"the Host header %q is not one this server answers to; use a loopback address, or start it with that host allowed", r.Host)
	}
	if origin := r.Header.Get("Origin"); origin != "" && !sameOrigin(origin, r.Host) {
		return fail(http.StatusForbidden, codeForbidden, "Origin", "requests from the origin %q are not allowed", origin)
	}
	if err := g.cross.Check(r); err != nil {
		return fail(http.StatusForbidden, codeForbidden, "Origin", "requests from another site are not allowed")
	}
	// The above lets reads pass, because most sites must answer them. Nothing
	// here is meant to be embedded elsewhere; only following a link is fine.
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return nil
	}
	if r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" {
		return nil
	}
	return fail(http.StatusForbidden, codeForbidden, "Sec-Fetch-Site", "requests from another site are not allowed")
}

func (g *guard) allowedHost(host string) bool {
	host = strings.ToLower(host)
	if g.hosts[host] {
		return true
	}
	name := hostName(host)
	return g.hosts[name] || loopbackName(name)
}

// hostName is a Host header without its port.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return host
}

func loopbackName(name string) bool {
	if name == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(name, "[]"))
	return err == nil && ip.Unmap().IsLoopback()
}

// sameOrigin compares host and port only: a proxy in front may speak TLS.
func sameOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return false
	}
	port, ok := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
	return ok && strings.EqualFold(strings.TrimSuffix(u.Host, port), strings.TrimSuffix(host, port))
}

// APIHeader is the header of every answer of the interface, errors included. Its
// value is the version of the interface. Clients tell a Daybook server from another
// program by it.
const APIHeader = "Daybook-Api"

// secure sets the headers that every answer carries. Pages and mounted
// handlers replace the policy with one that fits them.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	h.Set(APIHeader, "1")
}

func tooLarge() *failure {
	return fail(http.StatusRequestEntityTooLarge, string(ledger.CodeTooLarge), "", "%s", ledger.ErrRequestTooLarge.Message)
}

// CheckBind refuses to serve other machines without authentication: addr
// ("host:port") must be a loopback name or address unless authConfigured.
func CheckBind(addr string, authConfigured bool) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("HTTP address %q: want HOST:PORT: %w", addr, err)
	}
	if authConfigured || loopbackName(strings.ToLower(host)) {
		return nil
	}
	if host == "" {
		host = "every interface"
	}
	return fmt.Errorf("HTTP address %q: binding to %s lets other machines run code here, and no authentication is configured; ask for tokens with --auth tokens=FILE, or bind to 127.0.0.1", addr, host)
}
