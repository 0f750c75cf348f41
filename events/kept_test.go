package events_test

import (
	"bytes"
	"testing"

	"daybook/events"
)

// Kept events that are decoded, encoded and decoded again stay the same.
func FuzzDecodeKept(f *testing.F) {
	f.Add([]byte(`{"seq":1,"subject":"ledger.0001.t.exec.a","header":{"ce-id":["1"]},"body":"e30="}` + "\n"))
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		list, err := events.DecodeKept(raw, 1<<40)
		if err != nil {
			return
		}
		once, err := events.EncodeKept(list)
		if err != nil {
			t.Fatal(err)
		}
		list, err = events.DecodeKept(once, 1<<40)
		if err != nil {
			t.Fatal(err)
		}
		twice, err := events.EncodeKept(list)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%q, then %q, error %v", once, twice, err)
		}
	})
}
