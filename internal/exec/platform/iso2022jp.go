package platform

import (
	"fmt"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/japanese"
)

// The states of the decoder of ISO-2022-JP in the Encoding standard.
const (
	jpASCII = iota
	jpRoman
	jpKatakana
	jpLead
	jpTrail
	jpEscapeStart
	jpEscape
)

// jpDecoder is the decoder of ISO-2022-JP. Between calls of a script it is a text of four
// characters.
type jpDecoder struct {
	state, set byte // set is the state that the last escape sequence selected
	first      byte // of a character, or of an escape sequence; a space if none was read
	isEmpty    bool // whether no character follows the last escape sequence
	text       []byte
	isDamaged  bool
	kanji      *encoding.Decoder
}

func newJPDecoder(text []byte) (*jpDecoder, error) {
	d := &jpDecoder{first: ' ', kanji: japanese.EUCJP.NewDecoder()}
	if len(text) == 0 {
		return d, nil
	}
	if len(text) == 4 {
		d.state, d.set, d.first, d.isEmpty = text[0]-'0', text[1]-'0', text[2], text[3] == '1'
		if d.state <= jpEscape && d.set <= jpLead && d.first >= ' ' && d.first <= '~' {
			return d, nil
		}
	}
	return nil, &Error{"TypeError", fmt.Sprintf("%q is no state of a decoder", text)}
}

func (d *jpDecoder) String() string {
	flag := byte('0')
	if d.isEmpty {
		flag = '1'
	}
	return string([]byte{d.state + '0', d.set + '0', d.first, flag})
}

// decodeISO2022JP decodes all of in[2] and returns the text of the decoder, "!" if some bytes
// have no meaning, a line end, and their text. in[0] is the text of the decoder that the call
// before returned, or empty. in[1] is "last" if no bytes follow.
func decodeISO2022JP(in [][]byte) (Result, error) {
	d, err := newJPDecoder(in[0])
	if err != nil {
		return Result{}, err
	}
	d.text = make([]byte, 0, len(in[2])+len(in[2])/2)
	for _, b := range in[2] {
		d.read(b)
	}
	if string(in[1]) == "last" {
		d.end()
	}
	out := []byte(d.String())
	if d.isDamaged {
		out = append(out, '!')
	}
	return Result{Bytes: append(append(out, '\n'), d.text...), IsText: true}, nil
}

func (d *jpDecoder) read(b byte) {
	switch {
	case d.state == jpEscapeStart:
		if b == '$' || b == '(' {
			d.state, d.first = jpEscape, b
			return
		}
		d.damage()
		d.state = d.set
		d.read(b)
	case d.state == jpEscape:
		d.selectSet(b)
	case b == 0x1b:
		if d.state == jpTrail {
			d.damage()
		}
		d.state = jpEscapeStart
	case d.state == jpTrail:
		d.state = jpLead
		d.writeKanji(b)
	case d.state == jpLead && b >= 0x21 && b <= 0x7e:
		d.isEmpty = false
		d.state, d.first = jpTrail, b
	case d.state == jpKatakana && b >= 0x21 && b <= 0x5f:
		d.write(0xff61 - 0x21 + rune(b))
	case d.state == jpRoman && b == '\\':
		d.write('¥')
	case d.state == jpRoman && b == '~':
		d.write('‾')
	case (d.state == jpASCII || d.state == jpRoman) && b < utf8.RuneSelf && b != 0x0e && b != 0x0f:
		d.write(rune(b))
	default:
		d.damage()
	}
}

// selectSet reads the last byte of an escape sequence.
func (d *jpDecoder) selectSet(b byte) {
	first := d.first
	var set byte
	switch string([]byte{first, b}) {
	case "(B":
		set = jpASCII
	case "(J":
		set = jpRoman
	case "(I":
		set = jpKatakana
	case "$@", "$B":
		set = jpLead
	default:
		// The bytes after the escape character mean what they do without it.
		d.damage()
		d.state = d.set
		d.read(first)
		d.read(b)
		return
	}
	d.state, d.set = set, set
	if d.isEmpty {
		d.damage() // two escape sequences without a character between them
	}
	d.isEmpty = true
}

// end reports an incomplete character or escape sequence.
func (d *jpDecoder) end() {
	switch d.state {
	case jpTrail, jpEscapeStart:
		d.damage()
	case jpEscape:
		d.damage()
		d.state = d.set
		d.read(d.first)
		d.end()
	}
}

// writeKanji writes the character of JIS X 0208 with the bytes d.first and b. EUC-JP has the same
// ones, with the highest bit set.
func (d *jpDecoder) writeKanji(b byte) {
	if b < 0x21 || b > 0x7e {
		d.damage()
		return
	}
	var out [utf8.UTFMax]byte
	size, _, err := d.kanji.Transform(out[:], []byte{d.first | 0x80, b | 0x80}, true)
	r, _ := utf8.DecodeRune(out[:size])
	if err != nil || r == utf8.RuneError {
		d.damage()
		return
	}
	d.write(r)
}

func (d *jpDecoder) write(r rune) {
	d.isEmpty = false
	d.text = utf8.AppendRune(d.text, r)
}

func (d *jpDecoder) damage() {
	d.isEmpty = false
	d.isDamaged = true
	d.text = utf8.AppendRune(d.text, utf8.RuneError)
}
