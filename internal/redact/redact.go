// Package redact prepares the arguments of calls for conversation contexts: it removes
// values whose names look like secrets, and cuts long values. It does not recognize
// secrets with other names. It also removes secrets from addresses that messages show.
// redact.go is its only file.
package redact

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxChars bounds a text in Excerpt, in characters. MaxBytes bounds all names and
// values of its result together, in bytes.
const (
	MaxChars = 200
	MaxBytes = 1 << 10
)

const redactedJSON = `"[redacted]"`

// Names recognizes names that look like secrets. The zero value recognizes the common
// ones.
type Names struct {
	// More lists further parts of names that mark a secret, in upper or lower case.
	More []string
}

// Hide returns args with a fixed text in place of each value, at any depth, whose name
// looks like a secret's. The values MUST be those that encoding/json decodes to. Hide
// modifies the maps and slices in args.
func (n Names) Hide(args map[string]any) map[string]any {
	whole := make(map[string]any, len(args))
	for name, v := range args {
		whole[name] = n.hide(name, v)
	}
	return whole
}

func (n Names) hide(name string, v any) any {
	if n.IsSecret(name) {
		return json.RawMessage(redactedJSON)
	}
	switch v := v.(type) {
	case map[string]any:
		for k, item := range v {
			v[k] = n.hide(k, item)
		}
	case []any:
		for i, item := range v {
			v[i] = n.hide("", item)
		}
	}
	return v
}

// Excerpt returns args with long texts cut. A value that does not fit into MaxBytes is
// replaced by its size. At the first argument whose size does not fit either, Excerpt
// leaves out this one and all after it, in the order of their names. It modifies the
// maps and slices in args.
func Excerpt(args map[string]any) map[string]json.RawMessage {
	kept := map[string]json.RawMessage{}
	room := MaxBytes
	for _, name := range slices.Sorted(maps.Keys(args)) {
		v, err := json.Marshal(shorten(args[name]))
		if err != nil || len(v)+len(name) > room {
			v = LeftOut(len(v))
		}
		if room -= len(v) + len(name); room < 0 {
			break
		}
		kept[name] = v
	}
	return kept
}

// LeftOut returns the replacement for a value of a number of bytes.
func LeftOut(bytes int) json.RawMessage { return fmt.Appendf(nil, `"… (%d bytes)"`, bytes) }

func shorten(v any) any {
	switch v := v.(type) {
	case string:
		return Cut(v, MaxChars)
	case map[string]any:
		for k, item := range v {
			v[k] = shorten(item)
		}
	case []any:
		for i, item := range v {
			v[i] = shorten(item)
		}
	}
	return v
}

// Cut returns the first limit characters of a text. If that cuts the text, the last
// character is an ellipsis.
func Cut(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return string([]rune(s)[:limit-1]) + "…"
}

// A name looks like a secret's if one of its words is in secretWords, or if its words,
// joined, contain one of secretPairs.
var (
	secretWords = []string{"password", "passwd", "pwd", "passphrase", "secret", "token", "authorization", "credential", "credentials", "cookie", "bearer"}
	secretPairs = []string{"apikey", "privatekey", "accesskey", "secretkey", "signingkey", "authkey"}
)

// IsSecret reports whether a name looks like a secret's: "apiKey" and "db_password" do,
// "max_tokens" does not.
func (n Names) IsSecret(name string) bool {
	lower := strings.ToLower(name)
	for _, part := range n.More {
		if part != "" && strings.Contains(lower, strings.ToLower(part)) {
			return true
		}
	}
	parts := splitWords(name)
	joined := strings.Join(parts, "")
	return slices.ContainsFunc(parts, func(w string) bool { return slices.Contains(secretWords, w) }) ||
		slices.ContainsFunc(secretPairs, func(p string) bool { return strings.Contains(joined, p) })
}

// splitWords splits a name before each capital letter that follows a small one, and at
// all characters that are not letters. The words are in lower case.
func splitWords(name string) []string {
	var list []string
	var word []rune
	end := func() {
		if len(word) > 0 {
			list = append(list, strings.ToLower(string(word)))
		}
		word = nil
	}
	lower := false
	for _, c := range name {
		switch {
		case !unicode.IsLetter(c):
			end()
		case unicode.IsUpper(c) && lower:
			end()
			word = append(word, c)
		default:
			word = append(word, c)
		}
		lower = unicode.IsLower(c)
	}
	end()
	return list
}

// Address returns an address for a message: a text that is, or should be, a URL, without
// the user, the password, the query and the fragment in it. If an @ follows a slash, a
// question mark or a number sign, it may end a password or belong to a query: Address then
// returns only the scheme.
func Address(text string) string {
	scheme, rest, isURL := strings.Cut(text, "://")
	if isURL {
		scheme += "://"
	} else {
		scheme, rest = "", text
	}
	at, end := strings.LastIndexByte(rest, '@'), strings.IndexAny(rest, "/?#")
	if end >= 0 && at > end {
		return scheme + "…"
	}
	rest = rest[at+1:]
	if end := strings.IndexAny(rest, "?#"); end >= 0 {
		rest = rest[:end]
	}
	return scheme + rest
}
