package web

import (
	"net/http"
	"strings"
)

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
