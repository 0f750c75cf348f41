package web

import (
	"net/http"
	"strings"
)

// MetadataPath is where clients learn how to get a token (RFC 9728). The path of the
// resource they ask about follows it.
const MetadataPath = "/.well-known/oauth-protected-resource"

// BaseURL is the address of the service as the client of a request sees it: public if
// that is not empty, else the one it used.
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
