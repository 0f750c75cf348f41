package httpapi

import (
	"context"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"daybook/events"
	"daybook/internal/web/access"
)

// maxClient bounds the recorded part of a User-Agent, in bytes.
const maxClient = 256

// request is the data of an HTTP request that handlers use.
type request struct {
	tenant      string
	actor       events.Actor
	traceparent string
	// accept is the stream type that the client prefers, or empty for JSON.
	accept string
	// header has the fields that apiHeader returns.
	header http.Header
	method string
	host   string
	path   string
	query  url.Values
	// drain is closed when the server shuts down and streams must end. It may be nil.
	drain <-chan struct{}
}

type requestKey struct{}

// requestOf returns the request of a context, or nil.
func requestOf(ctx context.Context) *request {
	r, _ := ctx.Value(requestKey{}).(*request)
	return r
}

func newRequest(r *http.Request, query url.Values) *request {
	id, _ := access.From(r.Context()) // admit has set it for every route under /api/
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
		method: r.Method,
		host:   r.Host,
		path:   r.URL.Path,
		query:  query,
		drain:  drainOf(r.Context()),
	}
	if t := r.Header.Get("Traceparent"); validTraceparent(t) {
		info.traceparent = t
	}
	return info
}

// clientName converts a User-Agent to one line of valid UTF-8 of at most maxClient bytes.
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

// validTraceparent reports whether s is valid in version 00 of W3C Trace Context. That
// standard requires that invalid values are ignored.
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

// Media types of streams.
const (
	typeSSE    = "text/event-stream"
	typeNDJSON = "application/x-ndjson"
)

// streamType returns the media type of the highest weight in an Accept header among
// JSON and the stream types. It returns an empty string for JSON and if there is none.
// Wildcards, unknown types and malformed parts are skipped.
func streamType(accept []string) string {
	best, weight := "", 0.0
	for part := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		name, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		q := 1.0
		if s, ok := params["q"]; ok {
			if q, err = strconv.ParseFloat(s, 64); err != nil {
				continue
			}
		}
		switch name {
		case "application/json", typeSSE, typeNDJSON:
			if q > weight {
				best, weight = name, q
			}
		}
	}
	if best == "application/json" {
		return ""
	}
	return best
}
