package worker

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"time"
)

// An order for an idle worker is written whole, or not at all if its pipe is full.
func TestOrdersDoNotWait(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if !writeNow(w, frameAhead) || !writeNow(w, frameDrop) {
		t.Fatal("an empty pipe takes no order")
	}
	in := frameReader{r: r}
	for _, want := range []frameType{frameAhead, frameDrop} {
		if got, payload, err := in.next(); err != nil || got != want || len(payload) > 0 {
			t.Errorf("frame %q, payload %q, %v, want %q", got, payload, err, want)
		}
	}
	if err := w.SetWriteDeadline(time.Now().Add(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = w.Write(bytes.Repeat([]byte("x"), 4096))
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	if err := w.SetWriteDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if writeNow(w, frameDrop) {
		t.Error("a full pipe took an order")
	}
	r.Close()
	if writeNow(w, frameDrop) {
		t.Error("a pipe without a reader took an order")
	}
}
