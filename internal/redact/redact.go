// Package redact makes arguments of calls fit to be kept where a conversation is
// told: what is named like a secret is left out, and what is long is cut. It knows
// nothing of secrets under other names.
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

// Bounds of what Excerpt keeps: characters of a text, and bytes of all.
const (
	MaxChars = 200
	MaxBytes = 1 << 10
)

const redacted = `"[redacted]"`

// Names tells which names look like those of secrets. The zero Names knows the
// usual ones.
type Names struct {
	// More are parts of names, besides the usual ones.
	More []string
}

// Hide returns arguments without the values, at any depth, whose names look like
// secrets. The values are those that JSON decodes to. The maps and lists in args
// are changed.
func (n Names) Hide(args map[string]any) map[string]any {
	whole := make(map[string]any, len(args))
	for name, v := range args {
		whole[name] = n.hide(name, v)
	}
	return whole
}

func (n Names) hide(name string, v any) any {
	if n.Secret(name) {
		return json.RawMessage(redacted)
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

// Excerpt returns arguments with long texts cut, and of the largest only their
// sizes. The maps and lists in args are changed.
func Excerpt(args map[string]any) map[string]json.RawMessage {
	kept := map[string]json.RawMessage{}
	room := MaxBytes
	for _, name := range slices.Sorted(maps.Keys(args)) {
		v, err := json.Marshal(short(args[name]))
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

// LeftOut stands for a value of so many bytes.
func LeftOut(bytes int) json.RawMessage { return fmt.Appendf(nil, `"… (%d bytes)"`, bytes) }

func short(v any) any {
	switch v := v.(type) {
	case string:
		return Cut(v, MaxChars)
	case map[string]any:
		for k, item := range v {
			v[k] = short(item)
		}
	case []any:
		for i, item := range v {
			v[i] = short(item)
		}
	}
	return v
}

// Cut is a text of at most limit characters, the last a sign where there was more.
func Cut(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return string([]rune(s)[:limit-1]) + "…"
}

// Words and joined words that make a name that of a secret.
var (
	secretWords = []string{"password", "passwd", "pwd", "passphrase", "secret", "token", "authorization", "credential", "credentials", "cookie", "bearer"}
	secretPairs = []string{"apikey", "privatekey", "accesskey", "secretkey", "signingkey", "authkey"}
)

// Secret reports whether a name looks like that of a secret: "apiKey" and
// "db_password" do, "max_tokens" does not.
func (n Names) Secret(name string) bool {
	lower := strings.ToLower(name)
	for _, part := range n.More {
		if part != "" && strings.Contains(lower, strings.ToLower(part)) {
			return true
		}
	}
	parts := words(name)
	joined := strings.Join(parts, "")
	return slices.ContainsFunc(parts, func(w string) bool { return slices.Contains(secretWords, w) }) ||
		slices.ContainsFunc(secretPairs, func(p string) bool { return strings.Contains(joined, p) })
}

// words splits a name at case changes and at everything that is no letter.
func words(name string) []string {
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
