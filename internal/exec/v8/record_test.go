package v8_test

import (
	"bytes"
	"flag"
	"os"
	"strconv"
	"strings"
	"testing"

	"daybook/internal/exec/v8"
)

var update = flag.Bool("update", false, "write platform/record.js")

// A heap does not contain the lines of the record as long as the part record has the same ones. If
// it has not, heaps are larger, and right.
func TestRecordOfIntrinsics(t *testing.T) {
	const file = "platform/record.js"
	lines, err := v8.ShapeOfRecord()
	if err != nil {
		t.Fatal(err)
	}
	old, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(old), "[\n")
	var b bytes.Buffer
	b.WriteString(head + "[\n")
	for line := range strings.SplitSeq(lines, "\n") {
		b.WriteString(strings.ReplaceAll(strconv.Quote(line), "`", `\x60`) + ",\n")
	}
	b.WriteString("] };\n")
	if *update {
		if err := os.WriteFile(file, b.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(old, b.Bytes()) {
		t.Error(file + " is out of date: run go test ./internal/exec/v8 -run TestRecordOfIntrinsics -update")
	}
}
