package httpapi

import (
	"bytes"
	"strings"
	"testing"

	"daybook/projections"
)

// Encoding in pieces gives the same bytes as the standard encoder, and no complete JSON
// is in memory.
func TestLargeTextsAreEncodedInPieces(t *testing.T) {
	for name, text := range map[string]string{
		"controls": strings.Repeat("\x07\x00\"\\\n", largeText/4), "characters": strings.Repeat("aé€\U0001F600\u2028<&>", largeText/8),
		"broken": strings.Repeat("\xe2\x82a\xff\x80\x80\x80\x80\x80", largeText/4), "continuations": strings.Repeat("\x80", largeText),
	} {
		d := executionDetail{ExecutionDetail: projections.ExecutionDetail{Code: text + "1", Execution: projections.Execution{ExecutionID: "id", Result: new(text + "2"), Error: new(text)}}}
		page := projections.OutputPage{ExecutionID: "id", Data: text, TotalLines: 7}
		for _, c := range []struct{ answer, plain any }{
			{d, d}, {execBody{ended: &d}, d}, {execBody{accepted: accepted{ExecutionID: "id"}}, accepted{ExecutionID: "id"}}, {outputPage{page}, page},
		} {
			var got, want bytes.Buffer
			most := &largestWrite{w: &got}
			if err := encodeAnswer(most, c.answer); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := encoder(&want).Encode(c.plain); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Bytes(), want.Bytes()) {
				t.Errorf("%s: %T in pieces differs: %d bytes, want %d", name, c.answer, got.Len(), want.Len())
			}
			if most.n > 6*textPiece {
				t.Errorf("%s: %T has a piece of %d bytes", name, c.answer, most.n)
			}
		}
	}
}

// largestWrite records the length of the longest write.
type largestWrite struct {
	w *bytes.Buffer
	n int
}

func (l *largestWrite) Write(p []byte) (int, error) {
	l.n = max(l.n, len(p))
	return l.w.Write(p)
}
