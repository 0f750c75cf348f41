package platform

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// bodyFunctions encode and decode the bodies of requests and responses.
var bodyFunctions = map[string]function{
	"encodeBody":   {1, encodeBody},
	"decodeText":   {1, decodeText},
	"decodeBase64": {1, decodeBase64},
}

// encodeBody returns the body of a request as JSON: {"text": ...} if it is UTF-8, which is
// human-readable in the ledger, unless {"base64": ...} is shorter, as for control characters.
func encodeBody(inputs [][]byte) (Result, error) {
	body := inputs[0]
	if utf8.Valid(body) {
		text, err := encodeJSON(struct {
			Text string `json:"text"`
		}{string(body)})
		if err != nil || len(text) <= base64.StdEncoding.EncodedLen(len(body))+len(`{"base64":""}`) {
			return Result{Bytes: text, IsText: true}, err
		}
	}
	text, err := encodeJSON(struct {
		Base64 []byte `json:"base64"`
	}{body})
	return Result{Bytes: text, IsText: true}, err
}

func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode a body: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// decodeText returns a text as UTF-8, decodeBase64 what a text in Base64 means.
func decodeText(inputs [][]byte) (Result, error) { return Result{Bytes: bytes.Clone(inputs[0])}, nil }

func decodeBase64(inputs [][]byte) (Result, error) {
	raw := make([]byte, base64.StdEncoding.DecodedLen(len(inputs[0])))
	n, err := base64.StdEncoding.Decode(raw, inputs[0])
	if err != nil {
		return Result{}, &Error{"TypeError", "the text is not Base64"}
	}
	return Result{Bytes: raw[:n]}, nil
}
