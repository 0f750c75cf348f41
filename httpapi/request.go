package httpapi

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"daybook/events"
	"daybook/internal/web/access"
)

// maxClient bounds what is recorded of a User-Agent, in bytes.
const maxClient = 256

// request is what handlers know of the HTTP request behind a call.
type request struct {
	tenant      string
	actor       events.Actor
	traceparent string
	// accept is the media type the client prefers of those the package can
	// stream, or empty.
	accept string
	// header is the part of the header that apiHeader returns.
	header http.Header
	host   string
	path   string
	query  url.Values
	// drain is closed when the server wants streams to end; nil never.
	drain <-chan struct{}
}

type requestKey struct{}

// requestOf returns what newRequest put into the context.
func requestOf(ctx context.Context) *request {
	r, _ := ctx.Value(requestKey{}).(*request)
	return r
}

func newRequest(r *http.Request, query url.Values) *request {
	id, _ := access.From(r.Context()) // every route that gets here was admitted
	info := &request{
		tenant: id.Tenant,
		actor: events.Actor{
			Principal: id.Principal,
			Transport: "http",
			Client:    clientName(r.UserAgent()),
			Address:   remoteHost(r.RemoteAddr),
		},
		accept: streamType(r.Header.Values("Accept")),
		header: apiHeader(r.Header),
		host:   r.Host,
		path:   r.URL.Path,
		query:  query,
		drain:  draining(r.Context()),
	}
	if t := r.Header.Get("Traceparent"); validTraceparent(t) {
		info.traceparent = t
	}
	return info
}

// clientName makes a User-Agent fit for the record: one line of valid text.
func clientName(agent string) string {
	agent = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return -1
		}
		return c
	}, strings.ToValidUTF8(agent, "\uFFFD"))
	if len(agent) <= maxClient {
		return agent
	}
	cut := maxClient
	for !utf8.RuneStart(agent[cut]) {
		cut--
	}
	return agent[:cut]
}

func remoteHost(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return "" // a Unix socket has no address
	}
	return host
}

// validTraceparent accepts what W3C Trace Context does: a known layout, no
// all-zero ids. Anything else is ignored, as that standard asks.
func validTraceparent(s string) bool {
	if len(s) != 55 || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return false
	}
	version, trace, parent, flags := s[:2], s[3:35], s[36:52], s[53:]
	for _, part := range []string{version, trace, parent, flags} {
		if strings.Trim(part, "0123456789abcdef") != "" {
			return false
		}
	}
	return version == "00" && strings.Trim(trace, "0") != "" && strings.Trim(parent, "0") != ""
}
