package toolserver

import (
	"encoding/base64"
	"encoding/json"
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
		s.addArgument(argument, c.Args[i+1:], maxArgumentDepth)
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

// maxArgumentDepth is the maximum number of forms within each other in an argument: the
// script of sh -c, the flag of --header=Name: URL in it, the header and the URL.
const maxArgumentDepth = 6

// addArgument adds the secrets of an argument of a command: the value after a name that
// looks like a secret's, which may be the next argument, the secrets of a URL, and values
// that look random. An argument may also be a header, an assignment, JSON, or a script of
// a shell, and its value may have such a form too.
func (s *secretList) addArgument(argument string, next []string, depth int) {
	if depth == 0 {
		return
	}
	if u, err := url.Parse(argument); err == nil && u.Host != "" {
		s.addURL(u)
		return
	}
	if s.addJSON(argument, depth) {
		return
	}
	name, value, hasValue := strings.Cut(argument, "=")
	header, field, isHeader := strings.Cut(argument, ":")
	if isHeader = isHeader && !strings.ContainsAny(header, "= \t\n'\""); isHeader {
		name, value, hasValue = header, field, true
	}
	if words := shellWords(argument); len(words) > 1 && !isHeader {
		for i, w := range words {
			s.addArgument(w, words[i+1:], depth-1)
		}
	}
	value = strings.TrimSpace(value)
	switch isFlag := strings.HasPrefix(name, "-"); {
	case hasValue && isSecretValue(name):
		s.addHeader(value)
	case hasValue:
		s.addArgument(value, nil, depth-1)
	case isFlag && isSecretValue(name) && len(next) > 0 && !strings.HasPrefix(next[0], "-"):
		s.addHeader(next[0])
	case looksRandom(argument):
		s.add(argument)
	}
}

// isSecretValue reports whether the value of a flag, a variable or a header is a secret,
// judging by its name. The value of --token-file is a path, and --no-token has none.
func isSecretValue(name string) bool {
	if !(redact.Names{}).IsSecret(name) {
		return false
	}
	words := redact.Words(name)
	return !negations[words[0]] && !otherValues[words[len(words)-1]]
}

var (
	negations   = map[string]bool{"no": true, "without": true, "disable": true, "skip": true, "allow": true, "enable": true, "require": true}
	otherValues = map[string]bool{
		"file": true, "path": true, "dir": true, "directory": true, "env": true, "name": true, "url": true, "uri": true, "endpoint": true,
		"type": true, "kind": true, "store": true, "provider": true, "ttl": true, "expiry": true, "timeout": true, "policy": true,
	}
)

// addJSON adds the secrets of an argument that is a JSON object or array, and returns false
// for any other argument.
func (s *secretList) addJSON(argument string, depth int) bool {
	if trimmed := strings.TrimSpace(argument); trimmed == "" || trimmed[0] != '{' && trimmed[0] != '[' {
		return false
	}
	if !json.Valid([]byte(argument)) {
		return false
	}
	var v any
	d := json.NewDecoder(strings.NewReader(argument))
	d.UseNumber() // a secret number is hidden in the digits that the argument has
	if d.Decode(&v) != nil {
		return false
	}
	s.addValue(v, false, depth)
	return true
}

// addValue adds the secrets of a JSON value. isSecret is true below a name that looks like a
// secret's.
func (s *secretList) addValue(v any, isSecret bool, depth int) {
	switch v := v.(type) {
	case map[string]any:
		for name, item := range v {
			s.addValue(item, isSecret || isSecretValue(name), depth)
		}
	case []any:
		for i, item := range v {
			var next []string
			if i+1 < len(v) {
				if text, ok := v[i+1].(string); ok {
					next = []string{text}
				}
			}
			if text, ok := item.(string); ok && !isSecret {
				s.addArgument(text, next, depth-1)
				continue
			}
			s.addValue(item, isSecret, depth)
		}
	case string:
		if isSecret {
			s.addHeader(v)
		} else {
			s.addArgument(v, nil, depth-1)
		}
	case json.Number:
		if isSecret {
			s.add(v.String())
		}
	}
}

// shellWords splits a text as a shell does: at spaces and at the characters that separate
// commands, but not in quotes. It knows no expansions.
func shellWords(text string) (list []string) {
	var word strings.Builder
	var quote rune
	isWord, escaped := false, false
	end := func() {
		if isWord {
			list = append(list, word.String())
		}
		word.Reset()
		isWord = false
	}
	for _, c := range text {
		switch {
		case escaped:
			word.WriteRune(c)
			escaped = false
		case c == '\\' && quote != '\'':
			escaped, isWord = true, true
		case c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quote, isWord = c, true
		case unicode.IsSpace(c) || strings.ContainsRune(";&|()<>`", c):
			end()
		default:
			word.WriteRune(c)
			isWord = true
		}
	}
	end()
	return list
}

// tokenStarts are the starts of tokens that many services give out.
var tokenStarts = []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "sk-", "sk_live_", "sk_test_", "rk_live_", "xoxa-", "xoxb-", "xoxp-", "AKIA", "ASIA", "AIza", "ya29.", "eyJ", "npm_", "pypi-", "hf_", "SG.", "dop_v1_", "shpat_"}

// looksRandom reports whether a value under any name looks like a secret that a program
// made: it starts like a token, or has 20 or more letters and digits of both kinds in
// alternation, without the separators of paths, versions and names of packages.
func looksRandom(value string) bool {
	const short, long, changes = 12, 20, 4
	if len(value) < short || strings.ContainsFunc(value, func(r rune) bool {
		return r > unicode.MaxASCII || r <= ' ' || strings.ContainsRune("@:,{}()[]<>*?\\'\"", r)
	}) {
		return false
	}
	if slices.ContainsFunc(tokenStarts, func(start string) bool { return strings.HasPrefix(value, start) }) {
		return true
	}
	if len(value) < long || strings.ContainsAny(value[:1], "-/~") || strings.Contains(value, ".") { // a path, or a version
		return false
	}
	digits, switches, slashes := 0, 0, 0
	for i := range len(value) {
		isDigit := value[i] >= '0' && value[i] <= '9'
		if isDigit {
			digits++
		}
		if i > 0 && isDigit != (value[i-1] >= '0' && value[i-1] <= '9') {
			switches++
		}
		if value[i] == '/' {
			slashes++
		}
	}
	return digits >= 3 && digits < len(value) && switches >= changes && slashes*8 <= len(value)
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
