package contextstore

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"daybook/events"
	"daybook/internal/web"
	"daybook/ledger"
)

// Limits of the values that clients set.
const (
	// maxCustomKeys is the maximum number of values of a context. maxCustomBytes is the
	// maximum size of all values as JSON, including their keys.
	maxCustomKeys  = 100
	maxCustomBytes = 32 << 10
	// maxCustomKeyChars is the maximum length of a key, in characters.
	maxCustomKeyChars = 128
	// MaxMaxResults is the maximum of max_results.
	MaxMaxResults = 1000

	maxLanguageBytes = 35
	maxCustomDepth   = 32
)

var formats = []string{"json", "markdown", "plain"}

// Patch is a change that a client requests. Members that are not in the patch stay as
// they are. Null members are removed.
type Patch struct {
	// UserPreferences and Custom map names to JSON values. A nil map changes nothing.
	UserPreferences map[string]json.RawMessage
	Custom          map[string]json.RawMessage
}

// apply returns the content after a patch. Errors have CodeInvalid or CodeTooLarge and
// name the member.
func (s *Store) apply(p Patch, have events.ContextContent) (events.ContextContent, error) {
	next := events.ContextContent{UserPreferences: have.UserPreferences, Custom: maps.Clone(have.Custom)}
	if next.Custom == nil {
		next.Custom = map[string]json.RawMessage{}
	}
	for _, name := range slices.Sorted(maps.Keys(p.UserPreferences)) {
		if err := setPreference(&next.UserPreferences, name, p.UserPreferences[name]); err != nil {
			return next, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Custom)) {
		v := bytes.TrimSpace(p.Custom[name])
		if string(v) == "null" {
			delete(next.Custom, name)
			continue
		}
		if err := s.checkCustom(name, v); err != nil {
			return next, err
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, v); err != nil {
			return next, ledger.Invalid("custom", "custom.%s is not well-formed JSON", ledger.Excerpt(name))
		}
		next.Custom[name] = compact.Bytes()
	}
	return next, checkSize(next.Custom)
}

func setPreference(p *events.UserPreferences, name string, raw json.RawMessage) error {
	var err error
	null := string(bytes.TrimSpace(raw)) == "null"
	switch name {
	case "output_format":
		v := ""
		if !null && (json.Unmarshal(raw, &v) != nil || !slices.Contains(formats, v)) {
			err = ledger.Invalid("user_preferences", "user_preferences.output_format must be one of %s", strings.Join(formats, ", "))
		}
		p.OutputFormat = v
	case "max_results":
		v, whole := web.WholeNumber(string(bytes.TrimSpace(raw)))
		if !null && (!whole || v < 1 || v > MaxMaxResults) {
			err = ledger.Invalid("user_preferences", "user_preferences.max_results must be an integer from 1 to %d", MaxMaxResults)
		}
		p.MaxResults = int(v)
	case "language":
		v := ""
		if !null && (json.Unmarshal(raw, &v) != nil || !languageTag(v)) {
			err = ledger.Invalid("user_preferences", `user_preferences.language must be a language tag, such as "en" or "pt-BR"`)
		}
		p.Language = v
	default:
		err = ledger.Invalid("user_preferences", `user_preferences has no member "%s"; there are output_format, max_results and language, and custom for everything else`, ledger.Excerpt(name))
	}
	return err
}

func languageTag(s string) bool {
	if s == "" || len(s) > maxLanguageBytes {
		return false
	}
	for part := range strings.SplitSeq(s, "-") {
		if part == "" || len(part) > 8 || strings.Trim(part, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") != "" {
			return false
		}
	}
	return true
}

func (s *Store) checkCustom(name string, raw json.RawMessage) error {
	shown := ledger.Excerpt(name)
	switch {
	case name == "" || utf8.RuneCountInString(name) > maxCustomKeyChars:
		return ledger.Invalid("custom", "a key of custom must have 1 to %d characters", maxCustomKeyChars)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == 0x7f }):
		return ledger.Invalid("custom", `a key of custom must be visible text: "%s" is not`, shown)
	case len(raw) > maxCustomBytes:
		return tooLarge("custom.%s is %d bytes; all of custom may be %d: keep an id or a summary instead", shown, len(raw), maxCustomBytes)
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return ledger.Invalid("custom", "custom.%s is not well-formed JSON", shown)
	}
	found, deep := s.findSecret(name, v, maxCustomDepth)
	switch {
	case deep:
		return ledger.Invalid("custom", "custom.%s is nested more than %d levels deep", shown, maxCustomDepth)
	case found != "":
		return ledger.Invalid("custom", `custom.%s: "%s" looks like a secret, and values of a context stay recorded permanently; keep secrets elsewhere`, shown, ledger.Excerpt(found))
	}
	return nil
}

// findSecret returns the first name in a value that looks like a secret's name. deep
// reports whether the value is nested too deeply to be searched.
func (s *Store) findSecret(name string, v any, levels int) (found string, deep bool) {
	if s.secretNames().IsSecret(name) {
		return name, false
	}
	if levels == 0 {
		return "", true
	}
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if found, deep := s.findSecret(k, v[k], levels-1); found != "" || deep {
				return found, deep
			}
		}
	case []any:
		for _, item := range v {
			if found, deep := s.findSecret("", item, levels-1); found != "" || deep {
				return found, deep
			}
		}
	}
	return "", false
}

func checkSize(custom map[string]json.RawMessage) error {
	if len(custom) > maxCustomKeys {
		return tooLarge("custom would have %d keys; %d are possible: set some to null", len(custom), maxCustomKeys)
	}
	total := 0
	for name, v := range custom {
		total += len(name) + len(v)
	}
	if total > maxCustomBytes {
		return tooLarge("custom would be %d bytes; %d are possible: set some keys to null, or keep ids and summaries", total, maxCustomBytes)
	}
	return nil
}

func tooLarge(format string, args ...any) error {
	err := ledger.Invalid("custom", format, args...)
	err.Code = ledger.CodeTooLarge
	return err
}
