package translog_test

import (
	"bytes"
	"testing"

	"daybook/internal/translog"
)

func FuzzSplitNotes(f *testing.F) {
	f.Add([]byte("daybook/x\n12\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\n\u2014 daybook/x AAAAAAAA\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, signed := range translog.SplitNotes(raw) {
			if !bytes.HasSuffix(signed, []byte("\n")) {
				t.Errorf("%q holds the note %q", raw, signed)
			}
		}
	})
}
