package web

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// The errors of Guard.Check.
var (
	// ErrForeignHost is returned for a Host header that is not a name of this server.
	ErrForeignHost = errors.New("foreign host")
	// ErrForeignOrigin is returned for an Origin header that names another server.
	ErrForeignOrigin = errors.New("foreign origin")
	// ErrOtherSite is returned for a request from a page of another site.
	ErrOtherSite = errors.New("request of another site")
	// ErrEmbedded is returned for a read from a page of another site, other than by
	// following a link.
	ErrEmbedded = errors.New("embedded in another site")
)

// Guard refuses requests that an attacker may have made a browser send: requests with a
// foreign Host header (DNS rebinding) or a foreign origin (cross-site requests). It is
// safe for concurrent use.
type Guard struct {
	hosts map[string]bool
	cross *http.CrossOriginProtection
}

// NewGuard returns a Guard for a server whose names are hosts and all loopback names
// and addresses, each with or without a port.
func NewGuard(hosts []string) *Guard {
	g := &Guard{hosts: map[string]bool{}, cross: http.NewCrossOriginProtection()}
	for _, h := range hosts {
		g.hosts[strings.ToLower(h)] = true
	}
	return g
}

// CheckHost returns an error if the text cannot be the value of a Host header.
func CheckHost(host string) error {
	if host == "" || strings.ContainsAny(host, "/*@ ") {
		return fmt.Errorf("host %q: give a name or address with an optional port, without scheme or path", host)
	}
	return nil
}

// Check returns the reason why a request is refused, or nil. The reason is one of
// ErrForeignHost, ErrForeignOrigin, ErrOtherSite and ErrEmbedded.
func (g *Guard) Check(r *http.Request) error {
	if !g.answersTo(r.Host) {
		return ErrForeignHost
	}
	if origin := r.Header.Get("Origin"); origin != "" && !sameOrigin(origin, r.Host) {
		return ErrForeignOrigin
	}
	if err := g.cross.Check(r); err != nil {
		return ErrOtherSite
	}
	// cross.Check allows reads, because most sites serve reads to other sites. This server
	// has nothing that another site may embed: of such reads, only following a link is
	// allowed.
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return nil
	}
	if r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" {
		return nil
	}
	return ErrEmbedded
}

// CheckAsWrite is Check for a path where reads have effects: it also refuses links from
// other sites.
func (g *Guard) CheckAsWrite(r *http.Request) error {
	write := *r
	write.Method = http.MethodPost
	return g.Check(&write)
}

func (g *Guard) answersTo(host string) bool {
	host = strings.ToLower(host)
	return g.hosts[host] || g.hosts[hostName(host)] || IsLoopback(host)
}

// hostName returns a Host header without its port.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return host
}

// IsLoopback reports whether a host, with or without a port, is localhost or a loopback
// address.
func IsLoopback(host string) bool {
	name := strings.ToLower(hostName(host))
	if name == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(name, "[]"))
	return err == nil && ip.Unmap().IsLoopback()
}

// sameOrigin reports whether an origin has the host and port of a request. It does not
// compare the schemes: a proxy in front of the server may terminate TLS.
func sameOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return false
	}
	port, ok := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
	return ok && strings.EqualFold(strings.TrimSuffix(u.Host, port), strings.TrimSuffix(host, port))
}

// MetadataPath is the path where clients read how to get a token (RFC 9728). The path
// of the requested resource follows it.
const MetadataPath = "/.well-known/oauth-protected-resource"

// BaseURL returns the address of the service as the client of a request sees it: public
// if that is not empty, otherwise the scheme and host of the request. The result has no
// final slash.
func BaseURL(r *http.Request, public string) string {
	switch {
	case public != "":
		return strings.TrimSuffix(public, "/")
	case r.TLS != nil:
		return "https://" + r.Host
	default:
		return "http://" + r.Host
	}
}
