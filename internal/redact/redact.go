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

// A name looks like a secret's if one of its words is in secretWords or ends with one of
// secretEnds, or if it follows a word that ends with one that secretPairs lists for it.
// Plurals count too.
var (
	secretWords = setOf("password", "passwd", "passcode", "pwd", "passphrase", "secret", "token", "authorization", "credential", "cred", "cookie", "bearer", "jwt", "dsn")
	// secretEnds are the ends of words that are written without a mark between their parts:
	// PGPASSWORD, clientsecret. No word of another meaning ends so.
	secretEnds  = []string{"password", "passwd", "pwd", "passphrase", "secret", "token", "apikey", "accesskey", "privatekey", "secretkey"}
	secretPairs = map[string][]string{
		"key":    {"api", "private", "access", "secret", "signing", "auth", "encryption", "decryption", "ssh", "master", "account", "subscription", "shared", "hmac", "deploy", "storage"},
		"pass":   {"db", "database", "user", "admin", "root", "smtp", "mail", "ftp", "mysql", "postgres", "pg", "redis", "proxy", "auth"},
		"auth":   {"basic", "http", "proxy"},
		"string": {"connection"},
	}
	// measures are words with which "token" names a unit of text, or a property of a token.
	measures = setOf("max", "maximum", "min", "minimum", "num", "number", "n", "count", "total", "limit", "used", "usage", "budget", "remaining", "length", "size", "per", "type", "kind", "cost", "price")
	// texts are words with which "tokens" names a unit of text. In the singular, as in
	// "input_token", they may describe a secret.
	texts = setOf("prompt", "completion", "input", "output", "cached", "reasoning", "context", "estimated", "stop", "special", "thinking")
)

func setOf(list ...string) map[string]bool {
	set := map[string]bool{}
	for _, s := range list {
		set[s] = true
	}
	return set
}

// IsSecret reports whether a name looks like a secret's: "apiKeys", "DBPassword" and
// "db_password2" do, "max_tokens", "tokenizer" and "keyboard" do not.
func (n Names) IsSecret(name string) bool {
	lower := strings.ToLower(name)
	for _, part := range n.More {
		if part != "" && strings.Contains(lower, strings.ToLower(part)) {
			return true
		}
	}
	words := Words(name)
	for i, w := range words {
		one := singular(w)
		switch {
		case one == "token" && isMeasured(words, i, w != one):
		case secretWords[one], endsWith(one, secretEnds), i > 0 && endsWith(words[i-1], secretPairs[one]), isJoinedPair(one):
			return true
		}
	}
	return false
}

func endsWith(word string, ends []string) bool {
	return slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(word, end) })
}

// isJoinedPair reports whether a word consists of the words of a pair.
func isJoinedPair(word string) bool {
	for end, starts := range secretPairs {
		if start, ok := strings.CutSuffix(word, end); ok && slices.Contains(starts, start) {
			return true
		}
	}
	return false
}

// singular returns a word without the s of a plural.
func singular(word string) string {
	if len(word) > 3 && strings.HasSuffix(word, "s") && !strings.HasSuffix(word, "ss") {
		return word[:len(word)-1]
	}
	return word
}

// isMeasured reports whether another word shows that "token", the word at i of a name, does
// not say that the value is a token. In the singular only the words beside it count: the value
// of usage_report_token is a token. In the plural, as in maxOutputTokens, all words do.
func isMeasured(words []string, i int, plural bool) bool {
	if !plural {
		words = words[max(i-1, 0):min(i+2, len(words))]
	}
	return slices.ContainsFunc(words, func(w string) bool { return measures[w] || plural && texts[w] })
}

// Words returns the words of a name in lower case. A word starts with a capital letter
// after a small one, and with the last capital letter of several if a small one follows:
// DBPassword has the words db and password. All other characters than letters are between
// words.
func Words(name string) []string {
	var list []string
	var word []rune
	end := func() {
		if len(word) > 0 {
			list = append(list, strings.ToLower(string(word)))
		}
		word = nil
	}
	letters := []rune(name)
	for i, c := range letters {
		if !unicode.IsLetter(c) {
			end()
			continue
		}
		if unicode.IsUpper(c) && len(word) > 0 {
			// The plural of an acronym is not a word of its own: the s of JWTs.
			isLast := i+1 < len(letters) && unicode.IsLower(letters[i+1]) && !isPluralEnd(letters[i+1:])
			if unicode.IsLower(letters[i-1]) || isLast {
				end()
			}
		}
		word = append(word, c)
	}
	end()
	return list
}

// isPluralEnd reports whether the rest of a name starts with an s that ends a word.
func isPluralEnd(rest []rune) bool {
	return rest[0] == 's' && (len(rest) == 1 || !unicode.IsLower(rest[1]))
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
