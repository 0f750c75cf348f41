package translog_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"daybook/internal/translog"
)

func FuzzSplitNotes(f *testing.F) {
	const note = "daybook/x\n12\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\n\u2014 daybook/x AAAAAAAA\n"
	f.Add([]byte(note))
	f.Add([]byte(note + "\n" + note + "\n"))
	f.Add([]byte(note + "\n" + note[:20]))
	f.Add([]byte(note + "\n" + note[:len(note)-5]))
	f.Add([]byte("\n"))
	path := filepath.Join(f.TempDir(), "checkpoints")
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := translog.SplitNotes(raw)
		at := 0
		for _, signed := range before {
			text, signatures, ok := bytes.Cut(signed, []byte("\n\n"))
			if !ok || !bytes.HasPrefix(signatures, []byte("\u2014 ")) || !bytes.HasSuffix(signatures, []byte("\n")) || bytes.HasPrefix(text, []byte("\n")) {
				t.Errorf("%q holds the note %q", raw, signed)
			}
			// The notes are parts of the file, in order and apart.
			from := bytes.Index(raw[at:], bytes.TrimRight(signed, "\n"))
			if from < 0 {
				t.Fatalf("%q does not hold the note %q after byte %d", raw, signed, at)
			}
			at += from + len(bytes.TrimRight(signed, "\n"))
		}
		// A note that is appended to any file is found, after all others.
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := translog.KeepCheckpoint(filepath.Dir(path), []byte(note)); err != nil {
			t.Fatal(err)
		}
		now, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		after := translog.SplitNotes(now)
		if len(after) != len(before)+1 || string(after[len(before)]) != note || !slices.EqualFunc(before, after[:len(before)], bytes.Equal) {
			t.Errorf("%q with a note has %q, without it %q", raw, after, before)
		}
	})
}
