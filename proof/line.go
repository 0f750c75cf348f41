package proof

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A line of an export is a CloudEvent in structured mode. It also contains everything that the
// record of the event consists of: the position in "sequence", the subject in "natssubject", and
// the header lines of the record in "natsheaders". "data" is the last member and holds the payload
// byte for byte. A payload that is not JSON on one line is in "data_base64" instead. Everything
// but the data has exactly one form: a line with an additional space is rejected.

// attributes are the CloudEvents attributes of a line that repeat a header, in order. "sequence"
// and the rest follow.
var attributes = []struct{ name, header string }{
	{"specversion", "ce-specversion"},
	{"id", "ce-id"},
	{"source", "ce-source"},
	{"type", "ce-type"},
	{"subject", "ce-subject"},
	{"time", "ce-time"},
	{"tenant", "ce-tenant"},
	{"traceparent", "ce-traceparent"},
	{"recordversion", versionHeader},
	{"datacontenttype", "content-type"},
}

const (
	memberData   = `,"data":`
	memberBase64 = `,"data_base64":`
)

// AppendLine appends the line of a stored message to dst, without a line end.
func AppendLine(dst []byte, m Record) ([]byte, error) {
	version, err := recordVersion(m)
	if err != nil {
		return dst, err
	}
	var room [1 << 10]byte
	header, err := appendHeader(room[:0], m, version)
	if err != nil {
		return dst, err
	}
	if !utf8.Valid(header) || !utf8.ValidString(m.Subject) {
		return dst, fmt.Errorf("position %d: its subject or headers are not text", m.Seq)
	}
	dst = append(dst, '{')
	for _, a := range attributes {
		if v := m.Header[a.header]; len(v) > 0 {
			dst = appendMember(dst, a.name, strings.Trim(v[0], " \t"))
		}
	}
	dst = appendMember(dst, "sequence", strconv.FormatUint(m.Seq, 10))
	dst = appendMember(dst, "natssubject", m.Subject)
	dst = appendMember(dst, "natsheaders", string(header))
	if oneLineJSON(m.Body) {
		dst = append(dst, memberData...)
		dst = append(dst, m.Body...)
	} else {
		dst = append(dst, memberBase64...)
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, m.Body)
		dst = append(dst, '"')
	}
	return append(dst, '}'), nil
}

// oneLineJSON reports whether a payload can be "data" unchanged.
func oneLineJSON(body []byte) bool {
	return !bytes.ContainsAny(body, "\r\n") && utf8.Valid(body) && json.Valid(body)
}

func appendMember(dst []byte, name, value string) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	dst = appendString(dst, name)
	dst = append(dst, ':')
	return appendString(dst, value)
}

const hexDigits = "0123456789abcdef"

// appendString appends a JSON string in ASCII. It has one form: short escapes where they exist,
// and \u with lowercase digits for all other characters outside printable ASCII.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r >= ' ' && r <= '~':
			dst = append(dst, byte(r))
		case r == '\n':
			dst = append(dst, `\n`...)
		case r == '\r':
			dst = append(dst, `\r`...)
		case r == '\t':
			dst = append(dst, `\t`...)
		case r == '\b':
			dst = append(dst, `\b`...)
		case r == '\f':
			dst = append(dst, `\f`...)
		case r > 0xffff:
			r -= 0x10000
			dst = appendUnit(appendUnit(dst, 0xd800+r>>10), 0xdc00+r&0x3ff)
		default:
			dst = appendUnit(dst, r)
		}
	}
	return append(dst, '"')
}

func appendUnit(dst []byte, r rune) []byte {
	return append(dst, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}

// ParseLine parses a line without its line end. It accepts only lines that AppendLine writes, with
// one exception: any data may be in base64.
func ParseLine(line []byte) (Record, error) {
	var m Record
	head, body, err := splitLine(line)
	if err != nil {
		return m, err
	}
	var members struct {
		Sequence    string `json:"sequence"`
		NATSSubject string `json:"natssubject"`
		NATSHeaders string `json:"natsheaders"`
	}
	if err := json.Unmarshal(append(bytes.Clone(head), '}'), &members); err != nil {
		return m, fmt.Errorf("it is no JSON object: %w", err)
	}
	if m.Seq, err = strconv.ParseUint(members.Sequence, 10, 63); err != nil || m.Seq == 0 {
		return m, fmt.Errorf("its sequence %.40q is not a position", members.Sequence)
	}
	m.Subject, m.Body, m.Header = members.NATSSubject, body, map[string][]string{}
	for text := range strings.Lines(members.NATSHeaders) {
		name, value, ok := strings.Cut(strings.TrimSuffix(text, "\n"), ": ")
		if !ok || transportHeaders[name] {
			return m, fmt.Errorf("event %d: %.80q is not the line of a covered header", m.Seq, text)
		}
		m.Header[name] = append(m.Header[name], value)
	}
	again, err := AppendLine(nil, m)
	if err != nil {
		return m, err
	}
	if !bytes.Equal(again, line) && !sameData(again, line, head) {
		return m, fmt.Errorf("event %d: the line differs from the one that an export writes for this event", m.Seq)
	}
	return m, nil
}

// sameData reports whether line differs from again only in the form of the data: line has the data
// in base64, although it could be "data" unchanged, as in again. Both lines have the same data, and
// head is the part of line before it.
func sameData(again, line, head []byte) bool {
	return bytes.HasPrefix(again, head) && bytes.HasPrefix(line[len(head):], []byte(memberBase64)) && bytes.HasPrefix(again[len(head):], []byte(memberData))
}

// splitLine splits a line before its data, and decodes the data. The data is the last member. All
// members before it are strings, in which each quotation mark is escaped, so the first place where
// the name of the data member is found is its beginning.
func splitLine(line []byte) (head, body []byte, err error) {
	if len(line) == 0 || line[0] != '{' || line[len(line)-1] != '}' {
		return nil, nil, fmt.Errorf("%.40q is no JSON object", line)
	}
	if i := bytes.Index(line, []byte(memberData)); i >= 0 {
		body := line[i+len(memberData) : len(line)-1]
		if !oneLineJSON(body) {
			return nil, nil, fmt.Errorf("the data is no JSON")
		}
		return line[:i], body, nil
	}
	i := bytes.Index(line, []byte(memberBase64))
	if i < 0 {
		return nil, nil, fmt.Errorf("it has no data")
	}
	var text string
	if err := json.Unmarshal(line[i+len(memberBase64):len(line)-1], &text); err != nil {
		return nil, nil, fmt.Errorf("the data is no text: %w", err)
	}
	body, err = base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || base64.StdEncoding.EncodeToString(body) != text || !bytes.Equal(line[i+len(memberBase64):len(line)-1], []byte(`"`+text+`"`)) {
		return nil, nil, fmt.Errorf("the data is not in base64")
	}
	return line[:i], body, nil
}

// AppendProof appends the line of a proof to dst, without a line end.
func AppendProof(dst []byte, seq uint64, hashes []Hash) []byte {
	dst = append(dst, `{"sequence":"`...)
	dst = strconv.AppendUint(dst, seq, 10)
	dst = append(dst, `","hashes":[`...)
	for i, h := range hashes {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, h[:])
		dst = append(dst, '"')
	}
	return append(dst, "]}"...)
}

// ParseProof parses the line of a proof. It accepts only lines that AppendProof writes.
func ParseProof(line []byte) (seq uint64, hashes []Hash, err error) {
	var p struct {
		Sequence string   `json:"sequence"`
		Hashes   []string `json:"hashes"`
	}
	if err := json.Unmarshal(line, &p); err != nil {
		return 0, nil, fmt.Errorf("a proof is no JSON object: %w", err)
	}
	if seq, err = strconv.ParseUint(p.Sequence, 10, 63); err != nil || len(p.Hashes) > 64 {
		return 0, nil, fmt.Errorf("%.40q is not the proof of an event", line)
	}
	for _, s := range p.Hashes {
		h, err := DecodeHash(s)
		if err != nil {
			return 0, nil, fmt.Errorf("the proof of event %d: %w", seq, err)
		}
		hashes = append(hashes, h)
	}
	if !bytes.Equal(AppendProof(nil, seq, hashes), line) {
		return 0, nil, fmt.Errorf("the proof of event %d is not written as an export writes it", seq)
	}
	return seq, hashes, nil
}
