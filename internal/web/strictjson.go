package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"daybook/ledger"
)

// largeJSON is the size in bytes above which values are read without copies.
const largeJSON = 1 << 20

// ErrNotObject is returned for JSON that is not an object. ErrTrailing is returned for
// text after the end of the object.
var (
	ErrNotObject = errors.New("not a JSON object")
	ErrTrailing  = errors.New("text after the end of the JSON object")
)

// RepeatedError is returned for an object with two members of the same name. Readers
// differ in which of the two they use.
type RepeatedError struct{ Name string }

// Error returns a message with the name.
func (e *RepeatedError) Error() string { return fmt.Sprintf("%q is given twice", e.Name) }

// EachMember calls fn with the name and the value of each member of a JSON object, in
// order. It stops at the first error of fn and returns that error. The values may be
// slices of data. For a repeated name EachMember returns a *RepeatedError without calling
// fn. For text that is not JSON it returns an error of encoding/json or io, possibly after
// calls of fn.
func EachMember(data []byte, fn func(name string, value []byte) error) error {
	seen := map[string]bool{}
	once := func(name string, value []byte) error {
		if seen[name] {
			return &RepeatedError{name}
		}
		seen[name] = true
		return fn(name, value)
	}
	if len(data) > largeJSON && json.Valid(data) {
		list, isObject := JSONMembers(data)
		if !isObject {
			return ErrNotObject
		}
		for _, m := range list {
			if err := once(m.Name, m.Value); err != nil {
				return err
			}
		}
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	t, err := dec.Token()
	if err != nil {
		return err
	}
	if t != json.Delim('{') {
		var whole any
		if err := json.Unmarshal(data, &whole); err != nil {
			return err
		}
		return ErrNotObject
	}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return err
		}
		name, _ := t.(string)
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return err
		}
		if err := once(name, value); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return ErrTrailing
	}
	return nil
}

// SurrogateError is returned for a JSON string with half of a surrogate pair, which is
// not a character. The standard decoder replaces it silently.
type SurrogateError struct {
	// Escape is the escape sequence of the half, such as \ud800.
	Escape string
}

// Error returns a message with the escape sequence.
func (e *SurrogateError) Error() string {
	return e.Escape + " is half of a surrogate pair, which is not a character"
}

// String decodes a JSON string. raw MUST be part of a well-formed text in valid UTF-8.
// For a lone surrogate it returns a *SurrogateError.
func String(raw []byte) (s string, err error) {
	if half := LoneSurrogate(raw); half != "" {
		return "", &SurrogateError{half}
	}
	if len(raw) > largeJSON && raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), nil // the decoder would copy it twice
	}
	err = json.Unmarshal(raw, &s)
	return s, err
}

// LoneSurrogate returns the first \uD800-\uDFFF escape of a JSON text that is not part
// of a pair, or "".
func LoneSurrogate(raw []byte) string {
	unit := func(i int) (uint64, bool) {
		if i+6 > len(raw) || raw[i] != '\\' || raw[i+1] != 'u' {
			return 0, false
		}
		u, err := strconv.ParseUint(string(raw[i+2:i+6]), 16, 16)
		return u, err == nil
	}
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		u, ok := unit(i)
		switch {
		case !ok:
			i++ // another escape: skip the escaped character
		case u >= 0xd800 && u < 0xdc00:
			if low, ok := unit(i + 6); ok && low >= 0xdc00 && low < 0xe000 {
				i += 11
				continue
			}
			return string(raw[i : i+6])
		case u >= 0xdc00 && u < 0xe000:
			return string(raw[i : i+6])
		default:
			i += 5
		}
	}
	return ""
}

// ItemError is returned for an item of a list that String cannot decode.
type ItemError struct {
	// Index is the item's index, counted from 0. Value is the item's text.
	Index int
	Value []byte
	Err   error
}

// Error returns a message that counts the items from 1.
func (e *ItemError) Error() string { return fmt.Sprintf("item %d: %v", e.Index+1, e.Err) }

// Unwrap returns the reason, possibly a *SurrogateError.
func (e *ItemError) Unwrap() error { return e.Err }

var errNotString = errors.New("not a string")

// Strings decodes a JSON list of strings. raw MUST be part of a well-formed text in
// valid UTF-8. The error is from encoding/json or an *ItemError.
func Strings(raw []byte) ([]string, error) {
	var given []json.RawMessage
	if err := json.Unmarshal(raw, &given); err != nil {
		return nil, err
	}
	list := make([]string, len(given))
	for i, v := range given {
		if v[0] != '"' {
			return nil, &ItemError{i, v, errNotString}
		}
		s, err := String(v)
		if err != nil {
			return nil, &ItemError{i, v, err}
		}
		list[i] = s
	}
	return list, nil
}

// MaxJSONValues is the maximum number of values in the JSON of one request, counting
// members and items at any depth. Reading a value costs far more than reading a byte of
// text.
const MaxJSONValues = 20_000

// ErrTooManyValues is the error of every interface for a request with more than
// MaxJSONValues values.
var ErrTooManyValues = &ledger.Error{Code: ledger.CodeTooLarge, Message: fmt.Sprintf(
	"the JSON of the request has more than %d values; send less at once, or send the value as one text", MaxJSONValues)}

// TooManyValues reports whether a JSON text has more than MaxJSONValues values. The
// text need not be well-formed.
func TooManyValues(text []byte) bool {
	count := func() int {
		return bytes.Count(text, []byte{','}) + bytes.Count(text, []byte{'['}) + bytes.Count(text, []byte{'{'})
	}
	if len(text) <= MaxJSONValues || count() < MaxJSONValues {
		return false
	}
	values := 1
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case ',', '[', '{':
			if values++; values > MaxJSONValues {
				return true
			}
		}
	}
	return false
}

// maxWholeNumber is 2^53. Every JSON reader represents integers up to it exactly.
const maxWholeNumber = 1 << 53

// WholeNumber parses a JSON number without a fraction, from -2^53 to 2^53, ends
// included. 5.0 and 5e0 are 5, as in JSON Schema. It reports false for other numbers,
// and never rounds. Every interface reads integers with it.
func WholeNumber(number string) (int64, bool) {
	mantissa, exponent, scaled := strings.Cut(strings.ToLower(number), "e")
	shift := 0
	if scaled {
		var err error
		if shift, err = strconv.Atoi(exponent); err != nil || shift > 400 || shift < -400 {
			return 0, false
		}
	}
	unsigned := strings.TrimPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(unsigned, ".")
	digits, point := whole+fraction, len(whole)+shift
	switch {
	case whole == "" || strings.Trim(digits, "0123456789") != "":
		return 0, false
	case point < len(digits):
		if strings.Trim(digits[max(point, 0):], "0") != "" || point < 0 && strings.Trim(digits, "0") != "" {
			return 0, false
		}
		digits = digits[:max(point, 0)]
	default:
		digits += strings.Repeat("0", point-len(digits))
	}
	if digits == "" {
		return 0, true
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > maxWholeNumber {
		return 0, false
	}
	if unsigned != mantissa {
		n = -n
	}
	return n, true
}
