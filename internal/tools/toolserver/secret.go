package toolserver

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// hidden stands where a secret was.
const hidden = "[hidden]"

// scrubber takes the secrets of a configuration out of texts that others made:
// errors of libraries, and what a server writes to its log.
type scrubber struct{ words *strings.Replacer }

// newScrubber hides every value of the environment and the headers, what the
// references of the file named, and all of a URL but its host. Values of less than
// four characters are no secrets, and hiding them would make texts unreadable.
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
		// "Bearer x" is no more secret than x.
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
		if len(u.Path) > 12 { // some keep a token in the path
			add(u.Path)
			add(u.EscapedPath())
		}
	}
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) }) // the longer one first
	var pairs []string
	for _, s := range slices.Compact(secrets) {
		pairs = append(pairs, s, hidden)
	}
	return scrubber{strings.NewReplacer(pairs...)}
}

// maxMessage is the most of a text by others that goes into an error, in bytes.
const maxMessage = 2 << 10

// text returns s without secrets, in one line of printable characters.
func (s scrubber) text(text string) string {
	text = s.words.Replace(strings.ToValidUTF8(text, "\ufffd"))
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	return strings.TrimSpace(cut(text, maxMessage))
}

// cut returns at most n bytes of s, marked if that is not all.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "..."
}

// long returns s without secrets, as a script gets it: whole up to maxFailure.
func (s scrubber) long(text string) string {
	return cut(s.words.Replace(strings.ToValidUTF8(text, "\ufffd")), maxFailure)
}
