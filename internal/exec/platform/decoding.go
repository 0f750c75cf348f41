package platform

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/transform"
)

// The functions of the encodings of text.
var decodingFunctions = map[string]function{
	"encodingName": {1, func(in [][]byte) (Result, error) { return encodingName(string(in[0])) }},
	"decodeWithTable": {3, func(in [][]byte) (Result, error) {
		return decodeWithTable(string(in[0]), string(in[1]) == "last", in[2])
	}},
	"decodeISO2022JP": {3, decodeISO2022JP},
}

// encodingName returns the name that the Encoding standard has for a label in lower case without
// spaces around it. It is empty if a script cannot decode it.
func encodingName(label string) (Result, error) {
	e, unknown := htmlindex.Get(label)
	if unknown != nil {
		return Result{IsText: true}, nil //nolint:nilerr // an empty name is the answer
	}
	name, unknown := htmlindex.Name(e)
	if unknown != nil || name == "replacement" {
		return Result{IsText: true}, nil //nolint:nilerr // an empty name is the answer
	}
	return Result{Bytes: []byte(name), IsText: true}, nil
}

// decodeWithTable returns the number of bytes that it decoded, "!" if some of them have no meaning, a
// line end, and their text. Unless isLast, a character that is cut at the end is left for the next
// call. Bytes without a meaning become U+FFFD.
func decodeWithTable(name string, isLast bool, in []byte) (Result, error) {
	e, err := htmlindex.Get(name)
	if err != nil {
		return Result{}, &Error{"RangeError", fmt.Sprintf("no encoding %q", name)}
	}
	if m, ok := e.(*charmap.Charmap); ok && strings.HasPrefix(name, "windows-") {
		return decodeWindows(m, in), nil
	}
	if name == "gbk" {
		e = simplifiedchinese.GB18030 // the standard has one decoder for both
	}
	decoder := e.NewDecoder()
	var out bytes.Buffer
	chunk := make([]byte, 32<<10)
	done := 0
	for {
		written, read, err := decoder.Transform(chunk, in[done:], isLast)
		out.Write(chunk[:written])
		done += read
		switch {
		case errors.Is(err, transform.ErrShortDst):
		case errors.Is(err, transform.ErrShortSrc) && !isLast || err == nil:
			isDamaged := bytes.Count(out.Bytes(), []byte("\ufffd")) > countReplacements(name, in[:done])
			return decoded(done, isDamaged, out.Bytes()), nil
		default:
			return Result{}, &Error{"TypeError", "The text cannot be decoded: " + err.Error()}
		}
	}
}

// decodeWindows decodes a code page of Windows. The standard gives its unused bytes between 0x80
// and 0x9f the control characters of the same numbers.
func decodeWindows(m *charmap.Charmap, in []byte) Result {
	var text []byte
	isDamaged := false
	for _, b := range in {
		r := m.DecodeByte(b)
		if r == utf8.RuneError && b >= 0x80 && b <= 0x9f {
			r = rune(b)
		}
		isDamaged = isDamaged || r == utf8.RuneError
		text = utf8.AppendRune(text, r)
	}
	return decoded(len(in), isDamaged, text)
}

func decoded(read int, isDamaged bool, text []byte) Result {
	out := strconv.AppendInt(nil, int64(read), 10)
	if isDamaged {
		out = append(out, '!')
	}
	return Result{Bytes: append(append(out, '\n'), text...), IsText: true}
}

// countReplacements returns how many times bytes encode U+FFFD itself.
func countReplacements(name string, in []byte) int {
	count := 0
	switch name {
	case "utf-16le", "utf-16be":
		for i := 0; i+1 < len(in); i += 2 {
			unit := [2]byte{in[i], in[i+1]}
			if unit == [2]byte{0xfd, 0xff} && name == "utf-16le" || unit == [2]byte{0xff, 0xfd} && name == "utf-16be" {
				count++
			}
		}
	case "gb18030", "gbk":
		count = bytes.Count(in, []byte{0x84, 0x31, 0xa4, 0x37})
	}
	return count
}
