package frozen_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"daybook/embed"
)

// inquiry sends questions and stores the answers.
type inquiry struct {
	*testing.T
	dir    directory
	book   *embed.Daybook
	groups map[string]*bytes.Buffer
	// times are the times of the events, in milliseconds since 1970.
	times map[int64]bool
	// asked holds the routes of the OpenAPI document that were requested, with the
	// names of the parameters that were used.
	asked map[string]map[string]bool
}

// line is a question and its answer in a golden file.
type line struct {
	Tenant tenant          `json:"tenant"`
	URL    string          `json:"url"`
	Accept string          `json:"accept,omitempty"`
	Status int             `json:"status"`
	Header fields          `json:"header,omitempty"`
	Body   json.RawMessage `json:"body,omitempty"`
	Text   string          `json:"text,omitempty"`
	SHA256 string          `json:"sha256,omitempty"`
	Length int             `json:"length,omitempty"`
}

// comparedHeaders are the headers of an answer that do not depend on the process.
var comparedHeaders = []string{"Content-Type", "Cache-Control", "Etag", "Location", "Daybook-Last-Sequence", "Retry-After"}

// mostText bounds the bodies that golden files hold unchanged, in bytes. mostPart is the
// limit for groups whose answers repeat those of other groups.
const mostText, mostPart = 4000, 400

// parts are the groups with the limit mostPart.
var parts = []string{"alltenants", "events", "history", "output", "proofs", "replays"}

// put writes a line of a golden file.
func (q *inquiry) put(group string, l any) {
	q.Helper()
	b := q.groups[group]
	if b == nil {
		b = new(bytes.Buffer)
		q.groups[group] = b
	}
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	if err := e.Encode(l); err != nil {
		q.Fatal(err)
	}
}

// ask sends a question. route is its pattern in the OpenAPI document, or "".
func (q *inquiry) ask(group string, of tenant, route, target string, header ...string) answer {
	q.Helper()
	if route != "" {
		q.used(route, target, header)
	}
	a := q.dir.tokens.ask(q.T, q.book, of, http.MethodGet, target, "", header...)
	l := line{Tenant: of, URL: target, Status: a.status, Header: fields{}}
	for pair := range slices.Chunk(header, 2) {
		if l.Accept = pair[1]; pair[0] != "Accept" {
			l.Accept = pair[0] + ": " + pair[1]
		}
	}
	for _, name := range comparedHeaders {
		if v := a.header.Get(name); v != "" {
			l.Header[name] = v
		}
	}
	body, most := q.normal(route, a.body), mostText
	if slices.Contains(parts, group) {
		most = mostPart
	}
	switch {
	case len(body) == 0:
	case !utf8.Valid(body) || len(body) > most:
		sum := sha256.Sum256(body)
		l.SHA256, l.Length = hex.EncodeToString(sum[:]), len(body)
	case json.Valid(body) && bytes.Count(body, []byte("\n")) <= 1:
		l.Body = bytes.TrimSpace(body)
	default:
		l.Text = string(body)
	}
	q.put(group, l)
	if a.status >= 500 && a.status != http.StatusServiceUnavailable {
		q.Errorf("%s: %d %.300s", target, a.status, a.body)
	}
	return answer{a.status, a.header, body}
}

// used records that a route was requested, with its parameters.
func (q *inquiry) used(route, target string, header []string) {
	u, err := url.Parse(target)
	if err != nil {
		q.Fatal(err)
	}
	if q.asked[route] == nil {
		q.asked[route] = map[string]bool{}
	}
	for name := range u.Query() {
		q.asked[route][name] = true
	}
	for pair := range slices.Chunk(header, 2) {
		q.asked[route][pair[0]] = true
	}
}

// pages requests all pages of a list.
func (q *inquiry) pages(group string, of tenant, route, target string) {
	q.Helper()
	const most = 500
	join := "?"
	if strings.Contains(target, "?") {
		join = "&"
	}
	at := target
	for range most {
		var page struct {
			Next string `json:"next_cursor"`
		}
		a := q.ask(group, of, route, at)
		if err := json.Unmarshal(a.body, &page); err != nil {
			q.Fatalf("%s: %v in %s", at, err, a.body)
		}
		if page.Next == "" {
			return
		}
		at = target + join + "cursor=" + url.QueryEscape(page.Next)
	}
	q.Errorf("%s has more than %d pages", target, most)
}

// normal replaces the values that differ between two answers of one directory: the id and
// the times of an unused context that no event created. Each process creates it on demand.
func (q *inquiry) normal(route string, body []byte) []byte {
	if route != "/api/context" {
		return body
	}
	var c struct {
		ID      string `json:"session_id"`
		Created string `json:"created_at"`
		Updated string `json:"last_updated_at"`
	}
	if json.Unmarshal(body, &c) != nil || c.Created != c.Updated {
		return body
	}
	created, err := time.Parse(time.RFC3339, c.Created)
	if err != nil || q.times[created.UnixMilli()] {
		return body
	}
	for _, value := range []string{c.ID, c.Created, c.Updated} {
		body = bytes.ReplaceAll(body, []byte(strconv.Quote(value)), []byte(`"OF THIS PROCESS"`))
	}
	return body
}
