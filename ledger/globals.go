package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"unicode/utf8"

	"daybook/events"
)

// Limits of the globals of a submission.
const (
	// maxGlobals is the maximum number of values.
	maxGlobals = 16
	// MaxGlobalsBytes is the maximum length of all names and their JSON values in bytes.
	MaxGlobalsBytes = 16 << 20
)

// globalForm matches the name of a value.
var globalForm = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]{0,63}$`)

func checkGlobals(globals map[string]json.RawMessage) error {
	if len(globals) > maxGlobals {
		return Invalid("globals", "globals must be at most %d, not %d", maxGlobals, len(globals))
	}
	size := 0
	for _, name := range slices.Sorted(maps.Keys(globals)) {
		value := globals[name]
		size += len(name) + len(value)
		switch {
		case !globalForm.MatchString(name):
			return Invalid("globals", `globals: the name "%s" must be a JavaScript identifier of 1 to 64 characters of a-z, A-Z, 0-9, _ and $`, Excerpt(name))
		case size > MaxGlobalsBytes:
			return &Error{Code: CodeTooLarge, Field: "globals", Message: "globals are longer than 16 MiB as JSON: give less data, or give it in several runs and keep it in the heap"}
		case !utf8.Valid(value):
			return Invalid("globals", "globals: the value of %s must be valid UTF-8", name)
		case !json.Valid(value):
			return Invalid("globals", "globals: the value of %s must be JSON", name)
		}
	}
	return nil
}

// encodeGlobals returns the values as one JSON object, which is the same for the same
// values; empty for none. The values MUST have passed checkGlobals.
func encodeGlobals(globals map[string]json.RawMessage) string {
	if len(globals) == 0 {
		return ""
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(globals); err != nil {
		panic(err) // valid JSON always encodes
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}

// globalsBody prepares encoded values for the event of a request. They share the space
// of the source in the event; values that do not fit beside the source become a blob.
func (l *Ledger) globalsBody(ctx context.Context, tenant, keyID, globals string, source events.Body) (*events.Body, error) {
	if globals == "" {
		return nil, nil
	}
	text := source.Text
	if len(text)+len(globals) <= events.InlineBytes && jsonLen(text)+jsonLen(globals) <= inlineJSONBytes {
		return &events.Body{Text: globals}, nil
	}
	body, err := l.storeBlob(ctx, tenant, keyID, globals)
	if err != nil {
		return nil, err
	}
	return &body, nil
}
