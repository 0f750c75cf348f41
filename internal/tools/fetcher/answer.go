package fetcher

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"
)

// wireResponse is a response as the prelude decodes it.
type wireResponse struct {
	Status     int    `json:"status"`
	StatusText string `json:"statusText"`
	URL        string `json:"url"`
	Redirected bool   `json:"redirected"`
	// Headers are in the order of their names, and those of one name in the order of the
	// server. Names are in lower case.
	Headers [][2]string `json:"headers"`
	Body    *wireBody   `json:"body"` // nil without a body
}

// answer reads the response and returns it for the script.
func (x *exchange) answer(ctx context.Context, r *request, resp *http.Response) (Result, error) {
	body, held, err := x.fetcher.readBody(ctx, x.caller.Tenant, resp)
	if err != nil {
		return Result{}, err
	}
	h := x.hider()
	w := wireResponse{Status: resp.StatusCode, URL: h.hide(r.target.String()), Redirected: len(x.hops) > 1}
	if _, reason, ok := strings.Cut(resp.Status, " "); ok {
		w.StatusText = latin1Text(h.hide(reason))
	}
	if clean := h.hide(string(body)); clean != string(body) {
		body = []byte(clean)
		resp.Header.Del("Content-Length") // it is another one
	}
	w.Headers = [][2]string{}
	for _, name := range slices.Sorted(maps.Keys(resp.Header)) {
		if h.containsFold(name) {
			continue // a name with [hidden] is not valid
		}
		for _, value := range resp.Header[name] {
			w.Headers = append(w.Headers, [2]string{strings.ToLower(name), latin1Text(h.hide(value))})
		}
	}
	if hasBody(r.method, resp.StatusCode) {
		w.Body = encodeBody(body)
	} else {
		body = nil
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(w); err != nil {
		if held != nil {
			held.Release()
		}
		return Result{}, fmt.Errorf("encode the response: %w", err)
	}
	res := Result{Outcome: OK, Text: bytes.TrimRight(text.Bytes(), "\n"), ResponseBody: body, held: held}
	if held != nil {
		held.Shrink(int64(len(res.Text) + len(body)))
	}
	return res, nil
}

// hasBody reports whether a response can have a body, even if it is empty.
func hasBody(method string, status int) bool {
	return method != "HEAD" && status != http.StatusNoContent && status != http.StatusResetContent && status != http.StatusNotModified
}

// encodeBody encodes a body as text, which people can read in the ledger, or in Base64 if
// it is no text or longer as text.
func encodeBody(body []byte) *wireBody {
	if utf8.Valid(body) && jsonLength(body) <= base64.StdEncoding.EncodedLen(len(body)) {
		text := string(body)
		return &wireBody{Text: &text}
	}
	text := base64.StdEncoding.EncodeToString(body)
	return &wireBody{Base64: &text}
}

// jsonLength returns an upper bound of the length of a text in JSON, without its quotes.
func jsonLength(text []byte) int {
	n := len(text)
	for _, c := range text {
		switch {
		case c == '\n' || c == '\r' || c == '\t' || c == '"' || c == '\\':
			n++
		case c < ' ' || c == 0x7f:
			n += 5
		case c == 0xe2: // U+2028 and U+2029 begin so, and are escaped
			n += 3
		}
	}
	return n
}
