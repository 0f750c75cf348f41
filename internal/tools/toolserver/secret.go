package toolserver

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// redacted replaces a secret.
const redacted = "[hidden]"

// scrubber removes the secrets of a configuration from texts of other origin: errors of
// libraries, and a server's log.
type scrubber struct{ words *strings.Replacer }

// newScrubber returns a scrubber for every value of the environment and the headers, the
// values of references in the file, and the user, the password, the query and a long path
// of the URL. It ignores values of less than four bytes: they are no secrets, and hiding
// them would make texts unreadable.
func newScrubber(c Config) scrubber {
	var secrets []string
	add := func(s string) {
		if len(s) < 4 {
			return
		}
		secrets = append(secrets, s, url.QueryEscape(s), url.PathEscape(s), base64.StdEncoding.EncodeToString([]byte(s)))
	}
	for _, v := range c.Env {
		add(v)
	}
	for _, v := range c.Headers {
		add(v)
		// The token of "Bearer token" is a secret without its scheme too.
		if _, token, ok := strings.Cut(v, " "); ok {
			add(token)
		}
	}
	for _, v := range c.secrets {
		add(v)
	}
	if u, err := url.Parse(c.URL); err == nil {
		if u.User != nil {
			password, _ := u.User.Password()
			add(password)
			add(u.User.Username())
			add(u.User.String())
			add(u.User.Username() + ":" + password)
		}
		add(u.RawQuery)
		for _, values := range u.Query() {
			for _, v := range values {
				add(v)
			}
		}
		if len(u.Path) > 12 { // some servers have a token in the path
			add(u.Path)
			add(u.EscapedPath())
		}
	}
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) }) // longer secrets first
	var pairs []string
	for _, s := range slices.Compact(secrets) {
		pairs = append(pairs, s, redacted)
	}
	return scrubber{strings.NewReplacer(pairs...)}
}

// maxMessage is the maximum length in bytes of foreign text in an error.
const maxMessage = 2 << 10

// scrubLine returns text without secrets, on one line without control characters, cut
// after maxMessage bytes.
func (s scrubber) scrubLine(text string) string {
	text = s.words.Replace(strings.ToValidUTF8(text, "\ufffd"))
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	return strings.TrimSpace(truncate(text, maxMessage))
}

// truncate returns at most n bytes of s, with "..." after a cut.
func truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "..."
}

// scrubText returns text without secrets, cut after maxFailure bytes, for a script.
func (s scrubber) scrubText(text string) string {
	return truncate(s.words.Replace(strings.ToValidUTF8(text, "\ufffd")), maxFailure)
}
