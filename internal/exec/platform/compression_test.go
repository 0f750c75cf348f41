package platform

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func TestCompression(t *testing.T) {
	content := []byte(strings.Repeat("content ", 1000))
	for _, format := range []string{"gzip", "deflate", "deflate-raw"} {
		small, err := Compute("compress", [][]byte{[]byte(format), content})
		if err != nil || len(small.Bytes) > len(content)/10 {
			t.Fatalf("%s: %d bytes, %v", format, len(small.Bytes), err)
		}
		again, _ := Compute("compress", [][]byte{[]byte(format), content})
		if !bytes.Equal(again.Bytes, small.Bytes) {
			t.Errorf("%s: two results for one content", format)
		}
		back, err := Compute("decompress", [][]byte{[]byte(format), small.Bytes})
		if err != nil || !bytes.Equal(back.Bytes, content) {
			t.Errorf("%s: %d bytes come back, %v", format, len(back.Bytes), err)
		}
		for name, damaged := range map[string][]byte{
			"trailing": append(bytes.Clone(small.Bytes), 0),
			"short":    small.Bytes[:len(small.Bytes)-1],
			"empty":    {},
			"noise":    []byte("this is no compressed content"),
		} {
			var typed *Error
			if _, err := Compute("decompress", [][]byte{[]byte(format), damaged}); !errors.As(err, &typed) || typed.Name != "TypeError" {
				t.Errorf("%s, %s: %v", format, name, err)
			}
		}
		if _, err := decompress(format, small.Bytes, int64(len(content))-1); ErrorName(err) != "RangeError" {
			t.Errorf("%s: more than the limit: %v", format, err)
		}
	}
	for _, name := range []string{"compress", "decompress"} {
		if _, err := Compute(name, [][]byte{[]byte("zip"), nil}); ErrorName(err) != "TypeError" {
			t.Errorf("%s: another format: %v", name, err)
		}
	}
}
