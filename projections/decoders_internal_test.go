package projections

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
)

func TestCursors(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, kind := range []cursorKind{cursorExecutions, cursorEnded, cursorHeaps, cursorSessions, cursorShared} {
		for _, seq := range []uint64{0, 1, 127, 128, 1 << 40, 1<<63 - 1} {
			want := cursor{kind, seq}
			got, err := parseCursor(want.String(), kind)
			if err != nil || got != want || seen[want.String()] {
				t.Errorf("%v came back as %v, error %v", want, got, err)
			}
			seen[want.String()] = true
		}
	}
	if _, err := parseCursor(cursor{cursorHeaps, 1 << 63}.String(), cursorHeaps); !errors.Is(err, ErrBadQuery) {
		t.Errorf("a position SQLite cannot hold: %v", err)
	}
	heap := strings.Repeat("0f", 32)
	if hash, err := parseTagCursor(tagCursor(heap)); err != nil || hex.EncodeToString(hash) != heap {
		t.Errorf("heap %s came back as %x, error %v", heap, hash, err)
	}
	_, fromTags := parseCursor(tagCursor(heap), cursorHeaps)
	_, fromHeaps := parseTagCursor(cursor{cursorHeaps, 7}.String())
	for _, err := range []error{fromTags, fromHeaps} {
		if !errors.Is(err, ErrBadQuery) || !strings.Contains(err.Error(), "another list") {
			t.Errorf("the cursor of another list: %v", err)
		}
	}
}

// FuzzCursor checks that any text sent as a cursor is refused with a short sentence, or
// is exactly a cursor that was issued.
func FuzzCursor(f *testing.F) {
	for _, s := range []string{"", "x", "AAAA", cursor{cursorExecutions, 7}.String(), cursor{cursorEnded, 1<<63 - 1}.String(), cursor{cursorHeaps, 300}.String() + "\n", tagCursor(strings.Repeat("0f", 32)), "eAGAgICAgICAgIAB"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseCursor(text, cursorExecutions, cursorEnded)
		switch {
		case err == nil && (c.String() != text || c.seq >= 1<<63 || c.kind != cursorExecutions && c.kind != cursorEnded):
			t.Errorf("%q is parsed as %+v, which is %q", text, c, c)
		case err != nil && (!errors.Is(err, ErrBadQuery) || !strings.Contains(err.Error(), "cursor") || len(err.Error()) > 400 || !utf8.ValidString(err.Error())):
			t.Errorf("error %v", err)
		}
		if hash, err := parseTagCursor(text); err == nil && tagCursor(hex.EncodeToString(hash)) != text {
			t.Errorf("%q is parsed as heap %x", text, hash)
		}
	})
}

func TestChunks(t *testing.T) {
	t.Parallel()
	for _, lines := range [][]events.Line{
		{{}},
		{{Continued: true}},
		{{Text: "one"}, {Text: "世", Level: events.LevelError, TimeMillis: 1 << 40, Continued: true}, {Text: "", TimeMillis: -1 << 62}},
		{{Text: strings.Repeat("x", 1<<16), Level: events.LevelTrace, TimeMillis: 1<<63 - 1}, {TimeMillis: -1 << 63}},
	} {
		c := encodeChunk(lines)
		want, ends := []byte{}, int64(0)
		for i, l := range lines {
			want = append(want, l.Text...)
			if !l.Continued {
				want, ends = append(want, '\n'), ends+1
			}
			if l.Level == "" {
				lines[i].Level = events.LevelLog
			}
		}
		if c.text == nil || !bytes.Equal(c.text, want) || c.lineEnds != ends {
			t.Errorf("packed to %.40q with %d line ends", c.text, c.lineEnds)
		}
		got, err := decodeChunk(c.text, c.pieces)
		if diff := cmp.Diff(lines, got); diff != "" || err != nil {
			t.Errorf("%s, error %v", diff, err)
		}
	}
	if got, err := decodeChunk(encodeChunk([]events.Line{{Level: "newer"}}).text, encodeChunk([]events.Line{{Level: "newer"}}).pieces); err != nil || got[0].Level != events.LevelLog {
		t.Errorf("a level not known: %v, error %v", got, err)
	}
}

// FuzzChunk checks that no stored bytes make the decoder panic, and that decoded bytes
// encode to the same bytes.
func FuzzChunk(f *testing.F) {
	for _, lines := range [][]events.Line{{}, {{Text: "one", TimeMillis: 5}, {Text: "two", Continued: true}}, {{Level: events.LevelTrace, TimeMillis: -1 << 63}}} {
		c := encodeChunk(lines)
		f.Add(c.text, c.pieces)
	}
	f.Add([]byte("\n"), []byte{0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0})
	f.Add([]byte("x"), []byte{7, 1, 0})
	f.Fuzz(func(t *testing.T, text, pieces []byte) {
		lines, err := decodeChunk(text, pieces)
		if err != nil {
			if !errors.Is(err, errChunk) {
				t.Errorf("error %v", err)
			}
			return
		}
		c := encodeChunk(lines)
		again, err := decodeChunk(c.text, c.pieces)
		if diff := cmp.Diff(lines, again); diff != "" || err != nil || !bytes.Equal(c.text, text) {
			t.Errorf("%s, error %v", diff, err)
		}
	})
}
