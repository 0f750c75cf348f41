package platform

import (
	"errors"
	"strings"
	"testing"
)

// decodeJP decodes the parts of a text one after the other.
func decodeJP(t *testing.T, parts ...string) (text string, isDamaged bool) {
	t.Helper()
	state := ""
	for i, part := range parts {
		last := ""
		if i == len(parts)-1 {
			last = "last"
		}
		got, err := Compute("decodeISO2022JP", [][]byte{[]byte(state), []byte(last), []byte(part)})
		if err != nil {
			t.Fatalf("%q: %v", parts, err)
		}
		head, decoded, _ := strings.Cut(string(got.Bytes), "\n")
		state = strings.TrimSuffix(head, "!")
		if len(state) != 4 {
			t.Fatalf("%q: the state is %q", parts, state)
		}
		isDamaged = isDamaged || head != state
		text += decoded
	}
	return text, isDamaged
}

// The texts are what the decoder of the Encoding standard makes of the bytes, in one part and in
// parts of one byte.
func TestISO2022JP(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"a\\~\x7f\n", "a\\~\x7f\n"},
		{"\x1b$B$\"\x1b(B", "あ"},
		{"\x1b$@0!", "亜"},
		{"\x1b(J\\~a", "¥‾a"},
		{"\x1b(I1\x5f", "ｱﾟ"},
		{"\x1b(I\x60", "\ufffd"},
		{"\x1b$B$\"$$\x1b(Ja\x1b(Bb", "あいab"},
		{"a\x0e\x0f\x80", "a\ufffd\ufffd\ufffd"},
		{"\x1b", "\ufffd"},
		{"\x1b$", "\ufffd$"},
		{"\x1b(", "\ufffd("},
		{"\x1b(Xa", "\ufffd(Xa"},
		{"\x1b$(D\"/", "\ufffd$(D\"/"},
		{"\x1b\x1b(Ba", "\ufffda"},
		{"\x1b(\x1b(Ba", "\ufffd(a"},
		{"\x1b$B$", "\ufffd"},
		{"\x1b$B$\x1b(Ba", "\ufffda"},
		{"\x1b$B$\nb", "\ufffd\ufffd"},
		{"\x1b$B\na", "\ufffd\ufffd"},
		{"\x1b$B\x7e\x7e", "\ufffd"},
		{"\x1b$B\x1b$", "\ufffd\ufffd"},
		{"\x1b$B\x1b$\"", "\ufffdあ"},
		{"\x1b$B\x1b(Ba", "\ufffda"},
		{"\x1b(J\x1b(Ba", "\ufffda"},
		{"\x1b(Ja\x1b(Bb", "ab"},
	} {
		whole, isDamaged := decodeJP(t, c.in)
		if whole != c.want || isDamaged != strings.Contains(c.want, "\ufffd") {
			t.Errorf("%q: %q, damaged: %v", c.in, whole, isDamaged)
		}
		if parts, _ := decodeJP(t, append(strings.Split(c.in, ""), "")...); parts != whole {
			t.Errorf("%q in parts: %q", c.in, parts)
		}
	}
	for _, state := range []string{"1", "90 0", "09 0", "00\n0", "00 00", "00\xff0"} {
		_, err := Compute("decodeISO2022JP", [][]byte{[]byte(state), nil, []byte("a")})
		var named *Error
		if !errors.As(err, &named) || named.Name != "TypeError" {
			t.Errorf("state %q: %v", state, err)
		}
	}
}
