package httpapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"daybook/internal/web"
	"daybook/ledger"
)

// member decodes the value of one member of a JSON object. where is the path of the
// member, for messages.
type member func(where string, raw []byte) *failure

// requireJSON returns the failure for a body that is not marked as JSON, or nil. example is a
// command with a correct body, for the message.
func requireJSON(r *request, raw []byte, example string) *failure {
	if f := checkBodyEncoding(r); f != nil {
		return f
	}
	if asJSON, f := bodyType(r, raw); f != nil || !asJSON {
		return unsupported("Content-Type", "the body must be JSON: %s", example)
	}
	return nil
}

// checkBodyEncoding returns the failure for a body that is compressed or not in UTF-8
// according to its header, or nil.
func checkBodyEncoding(r *request) *failure {
	if enc := r.header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return unsupported("Content-Encoding", "the body is encoded with %q; send it without encoding", enc)
	}
	_, params, _ := mime.ParseMediaType(r.header.Get("Content-Type")) // bodyType refuses a malformed type
	switch charset := strings.ToLower(params["charset"]); charset {
	case "", "utf-8", "utf8", "us-ascii":
		return nil
	default:
		return unsupported("Content-Type", "the charset of the body is %q; send it in UTF-8", charset)
	}
}

// decodeObject decodes a JSON object. It refuses unknown members, names that differ in
// case, repeated members and invalid UTF-8. The standard decoder accepts these, and the
// ledger would then record a request that the client did not mean. A null member counts
// as absent.
func decodeObject(data []byte, members map[string]member) *failure {
	if web.TooManyValues(data) {
		return fail(http.StatusRequestEntityTooLarge, string(ledger.CodeTooLarge), "", "%s", web.ErrTooManyValues.Message)
	}
	return eachMember("", data, func(name string, raw []byte) *failure {
		read, ok := members[name]
		if !ok {
			return mistyped(name, "unknown field %q; the fields are %s", name, nameList(members))
		}
		if string(raw) == "null" {
			return nil
		}
		return read(name, raw)
	})
}

// eachMember calls fn with each member of a JSON object. where is the path of the
// object, empty for the body.
func eachMember(where string, data []byte, fn func(name string, raw []byte) *failure) *failure {
	pathOf := func(name string) string {
		if where == "" {
			return name
		}
		return where + "." + name
	}
	err := web.EachMember(data, func(name string, raw []byte) error {
		if !utf8.Valid(raw) || strings.ContainsRune(name, utf8.RuneError) {
			return invalid(pathOf(name), "%q must be valid UTF-8", pathOf(name))
		}
		if f := fn(name, raw); f != nil {
			return f
		}
		return nil
	})
	what := cmp.Or(where, "the body")
	var f *failure
	var twice *web.RepeatedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &f):
		return f
	case errors.As(err, &twice):
		return invalid(pathOf(twice.Name), "%q is given twice", pathOf(twice.Name))
	case errors.Is(err, web.ErrNotObject):
		return mistyped(where, "%s must be a JSON object, not %s", what, kindOf(data))
	case errors.Is(err, web.ErrTrailing):
		return invalid(where, "%s continues after the end of the JSON object", what)
	default:
		return jsonFailure(where, what, err)
	}
}

func jsonFailure(where, what string, err error) *failure {
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return invalid(where, "%s is not complete JSON: it ends too early", what)
	case errors.As(err, &syntax):
		return invalid(where, "%s is not JSON: %v, at byte %d", what, err, syntax.Offset)
	default:
		return invalid(where, "%s is not JSON: %v", what, err)
	}
}

func nameList(members map[string]member) string {
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// kindOf returns the JSON type of a value with its article.
func kindOf(raw []byte) string {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	default:
		return "a number"
	}
}

// text decodes a string into s and sets given, if it is not nil.
func text(s *string, given *bool) member {
	return func(where string, raw []byte) *failure {
		if raw[0] != '"' {
			return mistyped(where, "%s must be a string, not %s", where, kindOf(raw))
		}
		if given != nil {
			*given = true
		}
		var err error
		*s, err = web.String(raw)
		return textFailure(where, err)
	}
}

// textFailure returns the failure for an error of package web about a string, or nil.
func textFailure(where string, err error) *failure {
	var half *web.SurrogateError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &half):
		return invalid(where, `%s holds half of a surrogate pair (\ud800 to \udfff alone), which is not a character`, where)
	default:
		return jsonFailure(where, where, err)
	}
}

// integer decodes a whole number: 5.0 is 5.
func integer(n **int) member {
	return func(where string, raw []byte) *failure {
		switch raw[0] {
		case '"', '{', '[', 't', 'f':
			return mistyped(where, "%s must be an integer, not %s", where, kindOf(raw))
		}
		v, whole := web.WholeNumber(string(raw))
		switch {
		case whole && int64(int32(v)) == v:
			*n = new(int(v))
			return nil
		case whole || strings.Trim(string(raw), "-0123456789") == "":
			return invalid(where, "%s is out of range: %s", where, ledger.Excerpt(string(raw)))
		default:
			return mistyped(where, "%s must be an integer, not %s", where, ledger.Excerpt(string(raw)))
		}
	}
}

// boolean decodes true or false.
func boolean(to *bool) member {
	return func(where string, raw []byte) *failure {
		switch string(raw) {
		case "true", "false":
			*to = string(raw) == "true"
			return nil
		}
		return mistyped(where, "%s must be true or false, not %s", where, kindOf(raw))
	}
}

// textMap decodes an object of strings. An empty object sets an empty map, not nil.
func textMap(m *map[string]string) member {
	return func(where string, raw []byte) *failure {
		out := map[string]string{}
		f := eachMember(where, raw, func(name string, raw []byte) *failure {
			var s string
			if f := text(&s, nil)(where+"."+name, raw); f != nil {
				return f
			}
			out[name] = s
			return nil
		})
		*m = out
		return f
	}
}

// tagList parses repeated KEY=VALUE parameters. It returns nil if there are none.
func tagList(field string, pairs []string) (map[string]string, *failure) {
	if len(pairs) == 0 {
		return nil, nil
	}
	tags := make(map[string]string, len(pairs))
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, invalid(field, `%s must have the form KEY=VALUE, not "%s"`, field, ledger.Excerpt(pair))
		}
		if _, dup := tags[key]; dup {
			return nil, invalid(field, "%s gives the key %q twice", field, key)
		}
		tags[key] = value
	}
	return tags, nil
}

func checkRange[T int | int64](field string, v, low, high T) *failure {
	if v < low || v > high {
		return invalid(field, "%s must be %d to %d, not %d", field, low, high, v)
	}
	return nil
}

func checkHeapKey(field, hash string, valid bool) *failure {
	if valid {
		return nil
	}
	return invalid(field, "%s must be a heap key, 64 lowercase hex characters, not %q", field, fmt.Sprintf("%.80s", hash))
}

// optional is a query or header parameter that may be absent. The plain types of huma
// do not distinguish an absent parameter from a zero one.
type optional[T any] struct {
	Value T
	Set   bool
}

// Schema returns the schema of the value.
func (o optional[T]) Schema(r huma.Registry) *huma.Schema {
	return huma.SchemaFromType(r, reflect.TypeOf(o.Value))
}

// Receiver returns the field that huma sets.
func (o *optional[T]) Receiver() reflect.Value { return reflect.ValueOf(o).Elem().Field(0) }

// OnParamSet records whether the request has the parameter.
func (o *optional[T]) OnParamSet(set bool, _ any) { o.Set = set }

// or returns the value if it is set, and def otherwise.
func (o optional[T]) or(def T) T {
	if o.Set {
		return o.Value
	}
	return def
}
