package proof

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxSignatures is the maximum number of signatures of a note.
const maxSignatures = 100

// Note is a signed note (C2SP signed-note): a text, and lines with signatures of the text.
type Note struct {
	// Text is the signed text, which ends with a newline.
	Text       string
	Signatures []Signature
}

// Signature is one signature line of a note.
type Signature struct {
	// Name and ID identify the key together: other keys may have the same name or the same ID.
	Name string
	ID   uint32
	// Raw is the signature without the ID.
	Raw []byte
}

// Line returns the signature as a line of a note.
func (s Signature) Line() string {
	raw := append(binary.BigEndian.AppendUint32(nil, s.ID), s.Raw...)
	return "\u2014 " + s.Name + " " + base64.StdEncoding.EncodeToString(raw) + "\n"
}

// Encode returns the signed note. It leaves out repeated lines.
func (n Note) Encode() []byte {
	var b strings.Builder
	b.WriteString(n.Text + "\n")
	written := map[string]bool{}
	for _, s := range n.Signatures {
		if line := s.Line(); !written[line] {
			written[line] = true
			b.WriteString(line)
		}
	}
	return []byte(b.String())
}

// ParseNote parses a signed note of up to MaxNoteBytes bytes with up to 100 signatures. It verifies no
// signature. The text ends at the last empty line.
func ParseNote(signed []byte) (Note, error) {
	if len(signed) > MaxNoteBytes {
		return Note{}, fmt.Errorf("a signed note of %d bytes is longer than 64 KiB", len(signed))
	}
	if !utf8.Valid(signed) || bytes.ContainsFunc(signed, func(r rune) bool { return r < ' ' && r != '\n' }) {
		return Note{}, errors.New("it is not a signed note: not UTF-8 text without control characters")
	}
	end := bytes.LastIndex(signed, []byte("\n\n"))
	if end < 0 {
		return Note{}, errors.New("it is not a signed note: no empty line before the signatures")
	}
	lines, ended := strings.CutSuffix(string(signed[end+2:]), "\n")
	if !ended {
		return Note{}, errors.New("it is not a signed note: no signature that ends with a newline")
	}
	n := Note{Text: string(signed[:end+1])}
	for line := range strings.SplitSeq(lines, "\n") {
		s, err := parseSignature(line)
		if err != nil {
			return Note{}, err
		}
		if n.Signatures = append(n.Signatures, s); len(n.Signatures) > maxSignatures {
			return Note{}, fmt.Errorf("a signed note with more than %d signatures", maxSignatures)
		}
	}
	return n, nil
}

// parseSignature parses a signature line without its newline.
func parseSignature(line string) (Signature, error) {
	rest, dashed := strings.CutPrefix(line, "\u2014 ")
	name, encoded, _ := strings.Cut(rest, " ")
	raw, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if !dashed || !validKeyName(name) || err != nil || len(raw) < 5 {
		return Signature{}, fmt.Errorf("%.80q is not the signature line of a note", line)
	}
	return Signature{Name: name, ID: binary.BigEndian.Uint32(raw), Raw: raw[4:]}, nil
}

// validKeyName reports whether a key may have a name.
func validKeyName(name string) bool {
	return name != "" && utf8.ValidString(name) && !strings.Contains(name, "+") && !strings.ContainsFunc(name, unicode.IsSpace)
}

// badName is the error of a name that validKeyName does not accept.
func badName(name string) error {
	return fmt.Errorf("%.200q is not the name of a key: it has spaces or +, or is empty", name)
}

// IsOf reports whether a signature names a verification key in the form name+hash+base64. It verifies
// nothing.
func IsOf(s Signature, vkey string) bool {
	name, rest, _ := strings.Cut(strings.TrimSpace(vkey), "+")
	id, _, _ := strings.Cut(rest, "+")
	return s.Name == name && strings.EqualFold(fmt.Sprintf("%08x", s.ID), id)
}
