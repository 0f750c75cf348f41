package httpapi

import (
	"errors"
	"fmt"
	"net"
	"net/http"

	"daybook/internal/web"
)

// guardFailure returns the failure for a request that the guard refuses.
func guardFailure(r *http.Request, err error) *failure {
	field, text := "Origin", "requests from another site are not allowed"
	switch {
	case errors.Is(err, web.ErrForeignHost):
		return fail(http.StatusForbidden, codeForbidden, "Host",
			"the Host header %q is not allowed; use a loopback address, or start the server with that host allowed", r.Host)
	case errors.Is(err, web.ErrForeignOrigin):
		return fail(http.StatusForbidden, codeForbidden, field, "requests from the origin %q are not allowed", r.Header.Get("Origin"))
	case errors.Is(err, web.ErrEmbedded):
		field = "Sec-Fetch-Site"
	}
	return fail(http.StatusForbidden, codeForbidden, field, "%s", text)
}

// APIHeader is the name of a header in every response, errors included. Its value is
// the version of the interface. Clients recognize a Daybook server by it.
const APIHeader = "Daybook-Api"

// setSecurityHeaders sets the headers of every response. Pages and mounted handlers replace
// the content security policy by their own.
func setSecurityHeaders(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	h.Set(APIHeader, "1")
}

// CheckBind checks the address ("host:port") that a server listens on. It returns an
// error if other machines can reach the address and authConfigured is false.
func CheckBind(addr string, authConfigured bool) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("HTTP address %q: want HOST:PORT: %w", addr, err)
	}
	if authConfigured || web.IsLoopback(host) {
		return nil
	}
	if host == "" {
		host = "every interface"
	}
	return fmt.Errorf("HTTP address %q: binding to %s lets other machines run code here, and no authentication is configured; require tokens with --auth tokens=FILE, or bind to 127.0.0.1", addr, host)
}
