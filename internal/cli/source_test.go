package cli_test

import (
	"strings"
	"testing"
)

// Source that is not UTF-8 is refused with the offset of the wrong byte: the encoding as JSON would
// change the script.
func TestSourceIsUTF8(t *testing.T) {
	t.Parallel()
	book := serve(t)
	known := map[string]string{
		"url": book.URL(), "latin": written(t, "latin.js", "\"\xe9\""), "wide": written(t, "wide.js", "\xff\xfe1\x00"),
		"late": written(t, "late.js", strings.Repeat("\"é\";\n", 40)+"\"\xe9\x00\""), "nul": written(t, "nul.js", strings.Repeat("\"é\";\n", 40)+"\x00"), "bad": "\xc3(",
	}
	play(t, known, []step{
		{args: `run $latin` + at, status: 2, stderr: "daybook: $latin is not UTF-8: the byte at offset 1, 0xe9, belongs to no character; save it as UTF-8\n"},
		{args: `run $late` + at, status: 2, stderr: "daybook: $late is not UTF-8: the byte at offset 241, 0xe9, .*\n"},
		{args: `run $nul` + at, status: 2, stderr: "daybook: .*NUL byte \\(found one at byte 240\\).*\n"},
		{args: `run $wide` + at, status: 2, stderr: "daybook: $wide is not UTF-8: .*offset 0, 0xff, .*it looks like UTF-16; save it as UTF-8\n"},
		{args: `run -` + at, stdin: "1;\xe9", status: 2, stderr: "daybook: standard input is not UTF-8: the byte at offset 2, .*\n"},
		{args: `run -e $bad` + at, status: 2, stderr: "daybook: argument 3 \\(\\\\xc3\\(\\) is not UTF-8: the byte at offset 0, 0xc3, belongs to no character\n"},
		{args: `repl` + at, stdin: "'\xe9'\n'é'\n", stdout: "é\n", stderr: "daybook: the input is not UTF-8: the byte at offset 1, .*\n"},
	})
}
