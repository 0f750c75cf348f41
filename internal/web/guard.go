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

// Errors of Guard.Check.
var (
	// ErrForeignHost is a Host header that the server does not answer to.
	ErrForeignHost = errors.New("foreign host")
	// ErrForeignOrigin is an Origin header that names another server.
	ErrForeignOrigin = errors.New("foreign origin")
	// ErrOtherSite is a request that a page of another site makes.
	ErrOtherSite = errors.New("request of another site")
	// ErrEmbedded is a read that a page of another site makes, other than by a link.
	ErrEmbedded = errors.New("embedded in another site")
)

// Guard refuses requests that a browser may have been tricked into sending: a
// foreign Host (DNS rebinding) and a foreign origin (cross-site requests).
type Guard struct {
	hosts map[string]bool
	cross *http.CrossOriginProtection
}

// NewGuard makes a guard of a server that answers to loopback names and addresses and
// to hosts, each with or without a port.
func NewGuard(hosts []string) *Guard {
	g := &Guard{hosts: map[string]bool{}, cross: http.NewCrossOriginProtection()}
	for _, h := range hosts {
		g.hosts[strings.ToLower(h)] = true
	}
	return g
}

// CheckHost returns an error for a text that is no value of a Host header.
func CheckHost(host string) error {
	if host == "" || strings.ContainsAny(host, "/*@ ") {
		return fmt.Errorf("host %q: give a name or address with an optional port, without scheme or path", host)
	}
	return nil
}

// Check returns why a request is refused, or nil.
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
	// The above lets reads pass, because most sites must answer them. Nothing
	// here is meant to be embedded elsewhere; only following a link is fine.
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return nil
	}
	if r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" {
		return nil
	}
	return ErrEmbedded
}

// CheckAsWrite is Check for a path where a read has an effect: following a link of another
// site is refused too.
func (g *Guard) CheckAsWrite(r *http.Request) error {
	write := *r
	write.Method = http.MethodPost
	return g.Check(&write)
}

func (g *Guard) answersTo(host string) bool {
	host = strings.ToLower(host)
	return g.hosts[host] || g.hosts[hostName(host)] || IsLoopback(host)
}

// hostName is a Host header without its port.
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

// sameOrigin compares host and port only: a proxy in front may speak TLS.
func sameOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return false
	}
	port, ok := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
	return ok && strings.EqualFold(strings.TrimSuffix(u.Host, port), strings.TrimSuffix(host, port))
}
