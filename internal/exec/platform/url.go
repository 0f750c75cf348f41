package platform

import (
	"strconv"
	"strings"
)

// The functions of URLs.
var urlFunctions = map[string]function{
	"url.parse":   {1, func(in [][]byte) (Result, error) { return urlResult(parseURL(string(in[0]), nil)) }},
	"url.resolve": {2, resolveURL},
	"url.set":     {3, setPartOfURL},
}

func resolveURL(in [][]byte) (Result, error) {
	base, ok := parseURL(string(in[1]), nil)
	if !ok {
		return Result{}, errInvalidURL
	}
	return urlResult(parseURL(string(in[0]), base))
}

// setPartOfURL changes a member of a URL: in[0] is its href, in[1] the name of the member, in[2]
// the value. The href may be longer than maxURL, because the parser escapes characters.
func setPartOfURL(in [][]byte) (Result, error) {
	u := &urlRecord{port: -1}
	if !u.parse(string(in[0]), nil, noState) {
		return Result{}, errInvalidURL
	}
	return urlResult(u.set(string(in[1]), string(in[2])), true)
}

// maxURL is the maximum length of a URL and of its parts, in bytes of UTF-8. Longer ones are
// invalid, as in Chromium.
const maxURL = 2 << 20

var errInvalidURL = &Error{"TypeError", "Invalid URL"}

func urlResult(u *urlRecord, ok bool) (Result, error) {
	if !ok {
		return Result{}, errInvalidURL
	}
	return Result{Bytes: u.encode(), IsText: true}, nil
}

// urlRecord is a URL of the URL standard.
type urlRecord struct {
	scheme             string
	username, password []byte
	hasHost            bool
	host               string // serialized
	port               int    // -1 for none
	isOpaque           bool
	path               []byte // of an opaque path, or each segment after a slash
	hasQuery           bool
	query              []byte
	hasFragment        bool
	fragment           []byte
}

// defaultPorts are the special schemes with their ports; file has none.
var defaultPorts = map[string]int{"ftp": 21, "file": -1, "http": 80, "https": 443, "ws": 80, "wss": 443}

func isSpecialScheme(scheme string) bool {
	_, ok := defaultPorts[scheme]
	return ok
}

func (u *urlRecord) isSpecial() bool { return isSpecialScheme(u.scheme) }

func (u *urlRecord) hasCredentials() bool { return len(u.username) > 0 || len(u.password) > 0 }

// mayHaveCredentials reports whether the URL can have a user name, a password and a port.
func (u *urlRecord) mayHaveCredentials() bool {
	return u.hasHost && u.host != "" && u.scheme != "file"
}

// shortenPath removes the last segment, but not a drive letter of Windows.
func (u *urlRecord) shortenPath() {
	if u.scheme == "file" && len(u.path) == 3 && isNormalizedDrive(u.path[1:]) {
		return
	}
	if at := strings.LastIndexByte(string(u.path), '/'); at >= 0 {
		u.path = u.path[:at]
	}
}

// encode returns the offsets of the parts in the serialized URL, separated by commas, and the
// URL in the next line. The offsets are: the end of the scheme with its colon, start and end of
// user name, password, host and port, start and end of the path, the end of the query.
func (u *urlRecord) encode() []byte {
	b := append([]byte(u.scheme), ':')
	offsets := []int{len(b)}
	mark := func() { offsets = append(offsets, len(b)) }
	if u.hasHost {
		b = append(b, "//"...)
	}
	mark()
	b = append(b, u.username...)
	mark()
	if len(u.password) > 0 {
		b = append(b, ':')
	}
	mark()
	b = append(b, u.password...)
	mark()
	if u.hasCredentials() {
		b = append(b, '@')
	}
	mark()
	b = append(b, u.host...)
	mark()
	if u.port >= 0 {
		b = append(b, ':')
	}
	mark()
	if u.port >= 0 {
		b = strconv.AppendInt(b, int64(u.port), 10)
	}
	mark()
	if !u.hasHost && !u.isOpaque && len(u.path) > 1 && u.path[0] == '/' && u.path[1] == '/' {
		b = append(b, "/."...) // so that the path is not read as a host
	}
	mark()
	b = append(b, u.path...)
	mark()
	if u.hasQuery {
		b = append(append(b, '?'), u.query...)
	}
	mark()
	if u.hasFragment {
		b = append(append(b, '#'), u.fragment...)
	}
	var out []byte
	for i, offset := range offsets {
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendInt(out, int64(offset), 10)
	}
	return append(append(out, '\n'), b...)
}

// set changes a part, as the setters of the interface URL do. A value that is not valid for the
// part changes nothing or a beginning, as the standard says. It returns the record.
func (u *urlRecord) set(member, value string) *urlRecord {
	if len(value) > maxURL {
		return u
	}
	switch member {
	case "protocol":
		u.parse(value+":", nil, schemeStartState)
	case "username":
		if u.mayHaveCredentials() {
			u.username = appendEncoded(nil, value, userinfoSet)
		}
	case "password":
		if u.mayHaveCredentials() {
			u.password = appendEncoded(nil, value, userinfoSet)
		}
	case "host":
		if !u.isOpaque {
			u.parse(value, nil, hostState)
		}
	case "hostname":
		if !u.isOpaque {
			u.parse(value, nil, hostnameState)
		}
	case "port":
		if u.mayHaveCredentials() {
			if value == "" {
				u.port = -1
			} else {
				u.parse(value, nil, portState)
			}
		}
	case "pathname":
		if !u.isOpaque {
			u.path = nil
			u.parse(value, nil, pathStartState)
		}
	case "search":
		u.hasQuery, u.query = value != "", nil
		if u.hasQuery {
			u.parse(strings.TrimPrefix(value, "?"), nil, queryState)
		}
	case "hash":
		u.hasFragment, u.fragment = value != "", nil
		if u.hasFragment {
			u.parse(strings.TrimPrefix(value, "#"), nil, fragmentState)
		}
	}
	return u
}

// ---- percent-encoding -------------------------------------------------------------

// encodeSet has a bit for each ASCII character that is percent-encoded. Other characters always
// are.
type encodeSet [2]uint64

func (s encodeSet) with(characters string) encodeSet {
	for i := range len(characters) {
		s[characters[i]/64] |= 1 << (characters[i] % 64)
	}
	return s
}

func (s encodeSet) has(c byte) bool { return c >= 0x80 || s[c/64]&(1<<(c%64)) != 0 }

var (
	controlSet      = encodeSet{1<<32 - 1, 1 << 63}
	fragmentSet     = controlSet.with(" \"<>`")
	querySet        = controlSet.with(" \"#<>")
	specialQuerySet = querySet.with("'")
	pathSet         = querySet.with("?^`{}")
	userinfoSet     = pathSet.with("/:;=@[\\]|")
)

func appendEncoded(to []byte, text string, set encodeSet) []byte {
	for i := range len(text) {
		to = appendEncodedByte(to, text[i], set)
	}
	return to
}

func appendEncodedByte(to []byte, c byte, set encodeSet) []byte {
	const digits = "0123456789ABCDEF"
	if set.has(c) {
		return append(to, '%', digits[c>>4], digits[c&15])
	}
	return append(to, c)
}

// percentDecode replaces each %XX by its byte.
func percentDecode(text string) string {
	if !strings.Contains(text, "%") {
		return text
	}
	b := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) && isHex(text[i+1]) && isHex(text[i+2]) {
			b = append(b, hexValue(text[i+1])<<4|hexValue(text[i+2]))
			i += 2
		} else {
			b = append(b, text[i])
		}
	}
	return string(b)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
func isAlpha(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isHex(c byte) bool   { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }

func hexValue(c byte) byte {
	if isDigit(c) {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
