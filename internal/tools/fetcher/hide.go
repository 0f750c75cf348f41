package fetcher

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html"
	"net/url"
	"slices"
	"strings"
)

// hidden replaces a secret.
const hidden = "[hidden]"

// minSecret is the minimum length of a secret in bytes. Shorter values are no secrets, and
// hiding them would make texts unreadable.
const minSecret = 4

// hider removes secrets from what a script gets.
type hider struct {
	words  *strings.Replacer
	folded []string // the same words in lower case
}

// newHider returns a hider for the values of headers and other secrets, in the forms in which
// servers repeat them.
func newHider(values []string) hider {
	var list []string
	for _, v := range values {
		list = append(list, spellings(v)...)
		if scheme, secret, ok := strings.Cut(v, " "); ok {
			list = append(list, spellings(secret)...) // the token of "Bearer token"
			if plain, err := base64.StdEncoding.DecodeString(secret); err == nil && strings.EqualFold(scheme, "basic") {
				_, password, _ := strings.Cut(string(plain), ":")
				list = append(list, spellings(string(plain))...)
				list = append(list, spellings(password)...)
			}
		}
	}
	if len(list) == 0 {
		return hider{}
	}
	slices.SortFunc(list, func(a, b string) int { // longer ones first, equal ones together
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	var pairs, folded []string
	for _, s := range slices.Compact(list) {
		pairs = append(pairs, s, hidden)
		folded = append(folded, strings.ToLower(s))
	}
	return hider{strings.NewReplacer(pairs...), folded}
}

// spellings returns a secret in the forms in which texts may contain it.
func spellings(secret string) []string {
	if len(secret) < minSecret {
		return nil
	}
	hexed := hex.EncodeToString([]byte(secret))
	list := []string{
		secret, url.QueryEscape(secret), url.PathEscape(secret), html.EscapeString(secret), jsonQuoted(secret, true), jsonQuoted(secret, false), hexed, strings.ToUpper(hexed),
	}
	for skip := range 3 {
		list = append(list, innerBase64(secret, skip)...)
	}
	return list
}

// jsonQuoted returns a text as JSON has it between quotes, in one of the two usual forms.
func jsonQuoted(text string, escapesHTML bool) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(escapesHTML)
	_ = e.Encode(text) // a string always encodes
	return strings.TrimSuffix(b.String()[1:], "\"\n")
}

// innerBase64 returns the digits that a secret has in the Base64 form of a longer text, if
// skip bytes more than a multiple of three precede it. The digits that it shares with its
// neighbors are left out.
func innerBase64(secret string, skip int) []string {
	bits := 8 * (skip + len(secret))
	first, end := (8*skip+5)/6, bits/6
	if end-first < 8 {
		return nil // so few digits occur in other texts
	}
	text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("\x00", skip) + secret))[first:end]
	return []string{text, strings.NewReplacer("+", "-", "/", "_").Replace(text)}
}

// hide returns a text without the secrets.
func (h hider) hide(text string) string {
	if h.words == nil {
		return text
	}
	return h.words.Replace(text)
}

// contains reports whether a text has a secret.
func (h hider) contains(text string) bool { return h.hide(text) != text }

// containsFold reports whether a text has a secret with letters in any case. The case of the
// name of a header is not kept.
func (h hider) containsFold(text string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc(h.folded, func(word string) bool { return strings.Contains(text, word) })
}
