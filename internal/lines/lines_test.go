package lines_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"daybook/internal/lines"
)

func TestRead(t *testing.T) {
	t.Parallel()
	in := bufio.NewReaderSize(strings.NewReader("one\n\n"+strings.Repeat("x", 40)+"\nexactly 20 long ...\nlast"), 16)
	for _, want := range []struct {
		line string
		err  error
	}{{"one\n", nil}, {"\n", nil}, {"", lines.ErrTooLong}, {"exactly 20 long ...\n", nil}, {"last", io.EOF}, {"", io.EOF}} {
		line, err := lines.Read(in, 20)
		if string(line) != want.line || !errors.Is(err, want.err) {
			t.Errorf("read %q, %v; want %q, %v", line, err, want.line, want.err)
		}
	}
}

// For any input, the lines within the limit are read unchanged.
func FuzzRead(f *testing.F) {
	f.Add([]byte("one\ntwo"), 3)
	f.Add([]byte("\n\n\x00\r\n"), 1)
	f.Fuzz(func(t *testing.T, text []byte, limit int) {
		if limit < 1 || limit > 1<<16 {
			return
		}
		in := bufio.NewReaderSize(bytes.NewReader(text), 16)
		for want := range bytes.SplitAfterSeq(text, []byte("\n")) {
			line, err := lines.Read(in, limit)
			switch {
			case len(want) > limit:
				if !errors.Is(err, lines.ErrTooLong) {
					t.Fatalf("read %q, %v; want %v", line, err, lines.ErrTooLong)
				}
			case !bytes.Equal(line, want):
				t.Fatalf("read %q, %v; want %q", line, err, want)
			}
		}
		if line, err := lines.Read(in, limit); len(line) > 0 || !errors.Is(err, io.EOF) {
			t.Fatalf("after the end: %q, %v", line, err)
		}
	})
}
