package access

import (
	"net/http"
	"strings"
)

// maxTokenBytes bounds a bearer token, in bytes. Tokens of issuers that list every group of
// a user have some kilobytes.
const maxTokenBytes = 16 << 10

// Bearer returns the bearer token in a request's headers. Its errors are *TokenError.
// It never reads a token from the query, because logs contain addresses.
func Bearer(h http.Header) (string, error) {
	values := h.Values("Authorization")
	switch {
	case len(values) == 0:
		return "", &TokenError{Missing: true, Reason: "this needs a token: send the header \"Authorization: Bearer TOKEN\""}
	case len(values) > 1:
		return "", badToken("send the Authorization header once")
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimLeft(token, " ")
	switch {
	case !strings.EqualFold(scheme, "Bearer"):
		return "", badToken("the Authorization header must be of the form \"Bearer TOKEN\"")
	case token == "":
		return "", badToken("the Authorization header has no token after \"Bearer\"")
	case len(token) > maxTokenBytes:
		return "", badToken("the bearer token is longer than %d bytes", maxTokenBytes)
	}
	// The characters that RFC 6750 allows.
	if strings.Trim(token, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=") != "" || strings.ContainsAny(token, " \t") {
		return "", badToken("the bearer token contains characters that are not allowed")
	}
	return token, nil
}
