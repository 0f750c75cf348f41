package events_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"daybook/events"
)

// A body in canonical form is decoded as encoding/json decodes it.
func FuzzCanonicalBodies(f *testing.F) {
	for _, d := range examples() {
		body, err := json.Marshal(d)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(events.TypeOf(d)), body)
	}
	for _, body := range []string{
		`{"execution_id":"x","execution_id":"y"}`, `{"Execution_ID":"x"}`, `{"execution_id":null,"attempt":1}`, `{"attempt":-0}`, `{"attempt":01}`, `{"attempt":1e2}`, `{"attempt":1.0}`,
		`{"attempt":999999999999999999}`, `{"attempt":9999999999999999999}`, `{"execution_id":"\ud800"}`, "{\"execution_id\":\"\xff\"}", `{"execution_id":"a\u003cb\n"}`, `{"execution_id":"x"} `, `{"content":{"plain":{"lines":[{},null]}}}`,
		`{"content":{"plain":{"lines":[]}}}`, `{"content":{"sealed":{"nonce":"AA==","ciphertext":""}}}`, `{"content":{"sealed":{"nonce":"A"}}}`, `{"execution_id":"x",}`, `{`, ``, `null`,
	} {
		f.Add(string(events.TypeExecutionOutput), []byte(body))
	}
	f.Add(string(events.TypeExecutionRequested), []byte(`{"content":{"plain":{"tags":{"a":"1","a":"2"}}},"warnings":["x","y"]}`))
	f.Add(string(events.TypeExecutionRequested), []byte("{\"content\":{\"plain\":{\"tags\":{\"\\u0061\":\"\\ud83d\\ude00\",\"\\ud800\":\"\xff\"}}}}"))
	f.Add(string(events.TypeExecutionStarted), []byte("{\"execution_id\":\"x\",\"attempt\":2147483648,\"warnings\":[],\"warning\u017f\":null}"))
	f.Fuzz(func(t *testing.T, typ string, body []byte) {
		if slices.Contains(events.Types(), events.Type(typ)) {
			decodesAlike(t, events.Type(typ), body)
		}
	})
}

// decodesAlike reports whether a body is canonical. It fails the test if the body is then not decoded as
// encoding/json decodes it.
func decodesAlike(t *testing.T, typ events.Type, body []byte) bool {
	t.Helper()
	canonical, isCanonical, plain, err := events.DecodeBothWays(typ, body)
	if isCanonical && (err != nil || !reflect.DeepEqual(canonical, plain)) {
		t.Fatalf("%s decodes %s to %+v, encoding/json to %+v, %v", typ, body, canonical, plain, err)
	}
	return isCanonical
}

// A body with any one token replaced, repeated, left out or followed by another is decoded as encoding/json
// decodes it, or left to it.
func TestEditedCanonicalBodies(t *testing.T) {
	t.Parallel()
	replacements := []string{
		``, ` `, "\t", `null`, `true`, `false`, `0`, `-0`, `-1`, `00`, `1e3`, `1E3`, `1.0`, `1.5`, `-`, `+1`, `9007199254740993`, `999999999999999999`, `9223372036854775807`, `-9223372036854775808`,
		`9223372036854775808`, `18446744073709551615`, `18446744073709551616`, `2147483648`, `4294967296`, `""`, `"a"`, `"A"`, `"\u0000"`, `"\u0061"`, `"\ud800"`, `"\ud83d\ude00"`, `"\ude00\ud83d"`, `"\n"`, `"\x"`, `"\"`, `"`,
		"\"\xff\"", "\"\xed\xa0\x80\"", "\"\xc0\x80\"", "\"\x00\"", "\"\n\"", "\"\u2028\"", "\"\x7f\"", `"AA=="`, `"AA"`, `"AA=\n="`, `"A A=="`, `"2026-01-02T03:04:05.000Z"`, `"2026-01-02T03:04:05+01:00"`, `"2026-13-02T03:04:05Z"`,
		`{}`, `{"a":1}`, `{"":""}`, `{`, `}`, `[]`, `[{}]`, `[null]`, `[""]`, `[[]]`, `[`, `]`, `,`, `:`, `nul`, `tru`, `nullnull`,
	}
	canonical, all := 0, 0
	for _, d := range examples() {
		whole, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		tokens := tokensOf(string(whole))
		check := func(before, middle, after []string) {
			all++
			if decodesAlike(t, events.TypeOf(d), []byte(strings.Join(before, "")+strings.Join(middle, "")+strings.Join(after, ""))) {
				canonical++
			}
		}
		for i, token := range tokens {
			for _, r := range replacements {
				check(tokens[:i], []string{r}, tokens[i+1:])
			}
			for _, r := range []string{` `, `,`, `:`, `{}`, `}`, `]`, `null`, `""`, `0`} {
				check(tokens[:i+1], []string{r}, tokens[i+1:])
			}
			if strings.HasPrefix(token, `"`) {
				for _, r := range []string{strings.ToUpper(token), strings.ReplaceAll(token, "s", "\u017f"), strings.ReplaceAll(token, "k", "\u212a"), strings.Replace(token, "e", `\u0065`, 1)} {
					check(tokens[:i], []string{r}, tokens[i+1:])
				}
			}
			for _, end := range []int{i + 2, i + 3, i + 4, i + 6, i + 8} { // a member, an element, or a part of one
				if end < len(tokens) {
					check(tokens[:end], tokens[i:end], tokens[end:])
					check(tokens[:i], nil, tokens[end:])
				}
			}
		}
	}
	if canonical < all/50 {
		t.Errorf("%d of %d edited bodies are canonical", canonical, all)
	}
}

// tokensOf returns the tokens of JSON without white space.
func tokensOf(text string) (tokens []string) {
	for text != "" {
		n := 1
		switch {
		case text[0] == '"':
			for ; text[n] != '"'; n++ {
				if text[n] == '\\' {
					n++
				}
			}
			n++
		case !strings.ContainsRune("{}[],:", rune(text[0])):
			n = strings.IndexAny(text, "{}[],:")
		}
		tokens, text = append(tokens, text[:n]), text[n:]
	}
	return tokens
}

// The bodies that Encode writes have the canonical form, so that a rebuild is fast. Those of
// contexts hold JSON of clients.
func TestEncodedBodiesAreCanonical(t *testing.T) {
	t.Parallel()
	for _, d := range examples() {
		body, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		switch d.(type) {
		case *events.ContextUpdated, *events.ContextNoted:
			continue
		}
		if _, isCanonical, _, _ := events.DecodeBothWays(events.TypeOf(d), body); !isCanonical {
			t.Errorf("%s is decoded by encoding/json: %s", events.TypeOf(d), body)
		}
	}
}
