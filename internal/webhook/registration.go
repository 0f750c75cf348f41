package webhook

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"daybook/events"
	"daybook/internal/publicaddr"
)

// Registration holds the arguments of Register.
type Registration struct {
	// Tenant owns the webhook and the events.
	Tenant string
	// URL is the address that deliveries are posted to.
	URL string
	// Types, Session and ExecutionID select events; an empty field selects all.
	Types       []events.Type
	Session     string
	ExecutionID string
	// After is the position after which deliveries start; nil means the end of the
	// ledger.
	After *uint64
	// Actor is the client that registers the webhook.
	Actor events.Actor
}

// Error is returned for an invalid request. Its message is for the client.
type Error struct {
	// Field is the invalid field of the request, or empty.
	Field   string
	Message string
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

func invalidf(field, format string, args ...any) error {
	return &Error{field, fmt.Sprintf(format, args...)}
}

// maxURL is the maximum length of a URL in bytes.
const maxURL = 2048

// check returns errors that can be found without network and ledger.
func (r Registration) check(allowPrivate bool) error {
	if err := checkURL(r.URL, allowPrivate); err != nil {
		return err
	}
	for i, t := range r.Types {
		switch {
		case t.Webhook():
			return invalidf("types", "events of type %s are about webhooks and never posted to one; read them at /api/events", t)
		case !slices.Contains(events.Types(), t):
			return invalidf("types", "there is no event type %q; docs/events.md lists them", clip(string(t)))
		case slices.Contains(r.Types[:i], t):
			return invalidf("types", "type %s is listed twice", t)
		}
	}
	switch {
	case r.ExecutionID != "" && !events.ValidID(r.ExecutionID):
		return invalidf("execution_id", "%q is no execution id", clip(r.ExecutionID))
	case len(r.Session) > 256 || strings.ContainsFunc(r.Session, unicode.IsControl):
		return invalidf("session", "a session name has at most 256 bytes and no control characters")
	}
	return nil
}

func checkURL(text string, allowPrivate bool) error {
	const field = "url"
	if len(text) > maxURL {
		return invalidf(field, "url is longer than %d bytes", maxURL)
	}
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Host == "", u.Opaque != "", strings.ContainsFunc(text, unicode.IsControl):
		return invalidf(field, "url must be the full address of the receiver, such as https://example.com/hooks")
	case u.Scheme != "https" && u.Scheme != "http":
		return invalidf(field, "url must begin with https://")
	case u.User != nil:
		return invalidf(field, "url must not contain a user name, because the ledger stores it permanently; receivers can verify the signature instead")
	case u.Fragment != "":
		return invalidf(field, "url ends in a fragment (#%s), which is never sent; leave it out", clip(u.Fragment))
	case allowPrivate:
		return nil
	case u.Scheme != "https":
		return invalidf(field, "url must begin with https://: http is readable on the network (a server started with --webhook-allow-private accepts it)")
	}
	// Names are checked when they are dialed. This check only reports the error earlier.
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	addr, err := netip.ParseAddr(host)
	if err == nil && !publicaddr.Is(addr) || net.ParseIP(host) == nil && (host == "localhost" || strings.HasSuffix(host, ".localhost")) {
		return invalidf(field, "url leads to this machine or a private network; the server sends there only when started with --webhook-allow-private")
	}
	return nil
}

func clip(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:80], "") + "…"
	}
	return s
}
