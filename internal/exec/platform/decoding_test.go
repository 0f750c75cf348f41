package platform

import (
	"strconv"
	"strings"
	"testing"
)

func TestEncodingNames(t *testing.T) {
	for label, want := range map[string]string{
		"latin1": "windows-1252", "ascii": "windows-1252", "sjis": "shift_jis", "utf-16": "utf-16le", "koi": "koi8-r",
		"x-user-defined": "x-user-defined", "replacement": "", "iso-2022-kr": "", "none": "", "": "",
	} {
		if got, err := Compute("encodingName", [][]byte{[]byte(label)}); err != nil || string(got.Bytes) != want {
			t.Errorf("%s: %q, %v", label, got.Bytes, err)
		}
	}
}

func TestDecodeWithTable(t *testing.T) {
	decode := func(name, last, in string) (int, string) {
		got, err := Compute("decodeWithTable", [][]byte{[]byte(name), []byte(last), []byte(in)})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		number, text, _ := strings.Cut(string(got.Bytes), "\n")
		n, err := strconv.Atoi(strings.TrimSuffix(number, "!"))
		if isDamaged := strings.HasSuffix(number, "!"); err != nil || isDamaged != strings.Contains(text, "\ufffd") {
			t.Errorf("%s %q: %q", name, in, number)
		}
		return n, text
	}
	for _, c := range []struct {
		name, last, in, want string
		read                 int
	}{
		{"windows-1252", "last", "\x80\x81", "€\u0081", 2},
		{"shift_jis", "", "\x82\xa0\x82", "あ", 2},
		{"shift_jis", "last", "\x82\xa0\x82", "あ\ufffd", 3},
		{"utf-16le", "", "a\x00\x3d\xd8", "a", 2},
		{"utf-16be", "last", "\xd8\x3d\xde\x00", "😀", 4},
		{"gb18030", "last", strings.Repeat("\xc4\xe3", 40000), strings.Repeat("你", 40000), 80000},
	} {
		if n, text := decode(c.name, c.last, c.in); n != c.read || text != c.want {
			t.Errorf("%s %q: %d bytes, %.40q", c.name, c.in, n, text)
		}
	}
	// U+FFFD itself is no damage.
	for name, in := range map[string]string{"utf-16le": "a\x00\xfd\xff", "utf-16be": "\xff\xfd", "gb18030": "\x84\x31\xa4\x37", "gbk": "\x84\x31\xa4\x37"} {
		got, err := Compute("decodeWithTable", [][]byte{[]byte(name), []byte("last"), []byte(in)})
		if err != nil || strings.Contains(string(got.Bytes), "!") || !strings.HasSuffix(string(got.Bytes), "\ufffd") {
			t.Errorf("%s: %q, %v", name, got.Bytes, err)
		}
	}
	if _, err := Compute("decodeWithTable", [][]byte{[]byte("none"), nil, nil}); ErrorName(err) != "RangeError" {
		t.Error(err)
	}
}
