package conversation

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"daybook/events"
)

// Bounds of what is kept of the arguments of a call: characters of a text, and
// bytes of all.
const (
	maxArgumentChars = 200
	maxArgumentBytes = 1 << 10
)

const redacted = `"[redacted]"`

// arguments makes those of a call fit to be kept, and returns their hash: of
// tool and arguments as they were, but without secrets, which must not be
// guessed from it.
func (s *Store) arguments(tool string, args map[string]any) (kept map[string]json.RawMessage, sha256 string) {
	whole := map[string]any{}
	for name, v := range args {
		whole[name] = s.withoutSecrets(name, plain(v))
	}
	raw, err := json.Marshal(map[string]any{"tool": tool, "args": whole})
	if err != nil {
		raw = []byte(tool) // cannot be: it was JSON
	}
	kept = map[string]json.RawMessage{}
	room := maxArgumentBytes
	for _, name := range slices.Sorted(maps.Keys(whole)) {
		v, err := json.Marshal(short(whole[name]))
		if err != nil || len(v)+len(name) > room {
			v = fmt.Appendf(nil, `"… (%d bytes)"`, len(v))
		}
		if room -= len(v) + len(name); room < 0 {
			break
		}
		kept[name] = v
	}
	return kept, events.Hash(raw)
}

// plain turns typed values into those of plain JSON.
func plain(v any) any {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	var p any
	if json.Unmarshal(raw, &p) != nil {
		return nil
	}
	return p
}

// withoutSecrets replaces values whose names look like secrets.
func (s *Store) withoutSecrets(name string, v any) any {
	if s.secret(name) {
		return json.RawMessage(redacted)
	}
	switch v := v.(type) {
	case map[string]any:
		for k, item := range v {
			v[k] = s.withoutSecrets(k, item)
		}
	case []any:
		for i, item := range v {
			v[i] = s.withoutSecrets("", item)
		}
	}
	return v
}

// short cuts long texts.
func short(v any) any {
	switch v := v.(type) {
	case string:
		return cut(v, maxArgumentChars)
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

func cut(s string, limit int) string {
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

// secret reports whether a name looks like that of a secret: "apiKey" and
// "db_password" do, "max_tokens" does not.
func (s *Store) secret(name string) bool {
	lower := strings.ToLower(name)
	for _, part := range s.opts.SecretKeys {
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
