package fetcher

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Limits of a request, besides those in Options.
const (
	maxMethod  = 32
	maxHeaders = 200
)

// The values of request.Redirect.
const (
	redirectFollow = "follow"
	redirectError  = "error"
	redirectManual = "manual"
)

// request is the decoded request of a script.
type request struct {
	method   string // in upper case
	target   *url.URL
	headers  []header // names in lower case
	body     []byte   // nil for none
	redirect string
}

// header is one header. Its value is in bytes, not in the code points of a script.
type header struct{ name, value string }

// wireRequest is a request as the prelude encodes it.
type wireRequest struct {
	Method   string      `json:"method"`
	URL      string      `json:"url"`
	Headers  [][2]string `json:"headers"`
	Body     *wireBody   `json:"body"`
	Redirect string      `json:"redirect"`
}

// wireBody is a body: either text, which is sent as UTF-8, or bytes in Base64.
type wireBody struct {
	Text   *string `json:"text,omitempty"`
	Base64 *string `json:"base64,omitempty"`
}

// decodeRequest decodes the request of a script. Each error is one for the script.
func decodeRequest(text []byte, o Options) (*request, error) {
	var w wireRequest
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&w); err != nil {
		return nil, errors.New("the request is malformed")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the request is malformed")
	}
	r := &request{redirect: w.Redirect}
	switch r.redirect {
	case "":
		r.redirect = redirectFollow
	case redirectFollow, redirectError, redirectManual:
	default:
		return nil, fmt.Errorf("redirect must be %q, %q or %q", redirectFollow, redirectError, redirectManual)
	}
	var err error
	if r.method, err = checkMethod(w.Method); err != nil {
		return nil, err
	}
	if r.target, err = parseTarget(w.URL, nil); err != nil {
		return nil, err
	}
	if r.headers, err = checkHeaders(w.Headers, o.MaxHeaderBytes); err != nil {
		return nil, err
	}
	if r.body, err = w.Body.bytes(); err != nil {
		return nil, err
	}
	switch {
	case r.body != nil && (r.method == "GET" || r.method == "HEAD"):
		return nil, fmt.Errorf("a %s request cannot have a body", r.method)
	case len(r.body) > o.MaxRequestBytes:
		return nil, messagef(codeTooLarge, "the body of the request has %d bytes, at most %d are allowed", len(r.body), o.MaxRequestBytes)
	}
	return r, nil
}

func (b *wireBody) bytes() ([]byte, error) {
	switch {
	case b == nil:
		return nil, nil
	case b.Text != nil && b.Base64 == nil:
		return []byte(*b.Text), nil
	case b.Base64 != nil && b.Text == nil:
		raw, err := base64.StdEncoding.Strict().DecodeString(*b.Base64)
		if err != nil {
			return nil, errors.New("the body of the request is malformed")
		}
		return raw, nil
	}
	return nil, errors.New("the body of the request is malformed")
}

// token has the characters of methods and header names.
var token = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

func checkMethod(method string) (string, error) {
	if method == "" {
		return "GET", nil
	}
	if len(method) > maxMethod || !token.MatchString(method) {
		return "", errors.New("the method is malformed")
	}
	switch upper := strings.ToUpper(method); upper {
	case "CONNECT", "TRACE", "TRACK":
		return "", fmt.Errorf("method %s is not allowed", upper)
	default:
		return upper, nil
	}
}

// ownHeaders are the headers that describe how a request is sent. A script that sets one
// could send another request than the policy has seen.
var ownHeaders = map[string]bool{
	"accept-encoding": true, "connection": true, "content-length": true, "expect": true, "host": true, "http2-settings": true,
	"keep-alive": true, "te": true, "trailer": true, "transfer-encoding": true, "upgrade": true,
}

func isOwnHeader(name string) bool { return ownHeaders[name] || strings.HasPrefix(name, "proxy-") }

// checkHeaders returns the headers of a script with names in lower case and values in
// bytes. A script has one code point for each byte.
func checkHeaders(list [][2]string, maxBytes int) ([]header, error) {
	if len(list) > maxHeaders {
		return nil, messagef(codeTooLarge, "the request has %d headers, at most %d are allowed", len(list), maxHeaders)
	}
	headers := make([]header, 0, len(list))
	size := 0
	for _, h := range list {
		if len(h[0]) > maxBytes || !token.MatchString(h[0]) {
			return nil, errors.New("the name of a header is malformed")
		}
		name := strings.ToLower(h[0])
		if isOwnHeader(name) {
			return nil, fmt.Errorf("header %s cannot be set: it follows from the request", name)
		}
		value, ok := latin1Bytes(strings.Trim(h[1], " \t\r\n"))
		if !ok {
			return nil, fmt.Errorf("the value of header %.100s has a character that headers cannot have", name)
		}
		if size += len(name) + len(value) + 4; size > maxBytes {
			return nil, messagef(codeTooLarge, "the headers of the request have more than %d bytes", maxBytes)
		}
		headers = append(headers, header{name, value})
	}
	return headers, nil
}

// latin1Bytes returns the bytes of a header value, and false if it has code points that are
// no bytes, or control characters.
func latin1Bytes(s string) (string, bool) {
	var b strings.Builder
	b.Grow(len(s))
	for _, c := range s {
		if c > 0xff || c == utf8.RuneError || c == 0x7f || c < ' ' && c != '\t' {
			return "", false
		}
		b.WriteByte(byte(c))
	}
	return b.String(), true
}

// latin1Text returns a header value of a server as a script gets it: one code point for
// each byte.
func latin1Text(s string) string {
	for i := range len(s) {
		if s[i] >= 0x80 {
			runes := make([]rune, len(s))
			for j := range len(s) {
				runes[j] = rune(s[j])
			}
			return string(runes)
		}
	}
	return s
}
