package web

import (
	"bytes"
	"fmt"

	"daybook/ledger"
)

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
