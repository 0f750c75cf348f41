package toolserver

import (
	"encoding/base64"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"daybook/internal/redact"
)

// redacted replaces a secret.
const redacted = "[hidden]"

// scrubber removes the secrets of a configuration from texts of other origin: errors of
// libraries, and a server's log.
type scrubber struct{ words *strings.Replacer }

// newScrubber returns a scrubber for every value of the environment and the headers, the
// values of references in the file, the secrets of the arguments, and the user, the
// password, the query and the path of the URL. It ignores values of less than four bytes:
// they are no secrets, and hiding them would make texts unreadable.
func newScrubber(c Config) scrubber {
	var s secretList
	for _, v := range c.Env {
		s.add(v)
	}
	for _, v := range c.Headers {
		s.addHeader(v)
	}
	for _, v := range c.secrets {
		s.add(v)
	}
	for i, argument := range c.Args {
		s.addArgument(argument, c.Args[i+1:])
	}
	if u, err := url.Parse(c.URL); err == nil {
		s.addURL(u)
		s.add(u.User.Username())
		if !isUsualPath(u.Path) { // some servers have a token in the path
			s.add(u.Path)
			s.add(u.EscapedPath())
		}
	}
	slices.SortFunc(s, func(a, b string) int { return len(b) - len(a) }) // longer secrets first
	var pairs []string
	for _, secret := range slices.Compact(s) {
		pairs = append(pairs, secret, redacted)
	}
	return scrubber{strings.NewReplacer(pairs...)}
}

// secretList is a list of secrets in all forms in which texts may contain them.
type secretList []string

func (s *secretList) add(secret string) {
	if len(secret) < 4 {
		return
	}
	*s = append(*s, secret, url.QueryEscape(secret), url.PathEscape(secret), base64.StdEncoding.EncodeToString([]byte(secret)))
}

// addHeader adds the value of a header. The token of "Bearer token" is a secret without
// its scheme too.
func (s *secretList) addHeader(value string) {
	s.add(value)
	if _, token, ok := strings.Cut(value, " "); ok {
		s.add(token)
	}
}

// maxArgumentParts is the maximum number of nested names and values of an argument: the flag
// of --header=Name: URL, the header and the URL.
const maxArgumentParts = 3

// addArgument adds the secrets of an argument of a command: the value after a name that
// looks like a secret's, which may be the next argument, and the secrets of a URL. A value
// may have such a form too, as in --header=Authorization: and --env=TOKEN=.
func (s *secretList) addArgument(argument string, next []string) {
	for range maxArgumentParts {
		if u, err := url.Parse(argument); err == nil && u.Host != "" {
			s.addURL(u)
			return
		}
		name, value, hasValue := strings.Cut(argument, "=")
		if header, field, ok := strings.Cut(argument, ":"); ok && !strings.Contains(header, "=") {
			name, value, hasValue = header, field, true
		}
		value = strings.TrimSpace(value)
		switch isSecret := (redact.Names{}).IsSecret(name); {
		case isSecret && hasValue:
			s.addHeader(value)
		case isSecret && strings.HasPrefix(name, "-") && len(next) > 0 && !strings.HasPrefix(next[0], "-"):
			s.addHeader(next[0])
		}
		if !hasValue {
			return
		}
		argument, next = value, nil
	}
}

// addURL adds the password, or the user if there is none, the query, and the parts of the
// path that look like a token. A server may give a part of its path in another URL.
func (s *secretList) addURL(u *url.URL) {
	if u.User != nil {
		password, ok := u.User.Password()
		if !ok {
			s.add(u.User.Username())
		}
		s.add(password)
		s.add(u.User.String())
		s.add(u.User.Username() + ":" + password)
	}
	s.add(u.RawQuery)
	for _, values := range u.Query() {
		for _, v := range values {
			s.add(v)
		}
	}
	for part := range strings.SplitSeq(u.Path, "/") {
		if len(part) >= 6 && strings.ContainsFunc(part, func(r rune) bool { return unicode.IsDigit(r) || unicode.IsUpper(r) }) {
			s.add(part)
		}
	}
}

var usualPath = regexp.MustCompile(`^(/(api|http|mcp|messages?|rpc|servers?|sse|stream|tools|v[0-9]))*/?$`)

// isUsualPath reports whether a path consists of a few words that many servers use.
// Hiding them would make descriptions of tools unreadable.
func isUsualPath(path string) bool { return len(path) <= 12 && usualPath.MatchString(path) }

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
