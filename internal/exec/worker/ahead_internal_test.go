package worker

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
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
	raw, err := w.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{4096, 1} { // until not even a byte fits
		var full error
		err := raw.Write(func(fd uintptr) bool {
			for full == nil {
				_, full = unix.Write(int(fd), make([]byte, size))
			}
			return true
		})
		if err != nil || full != unix.EAGAIN {
			t.Fatal(err, full)
		}
	}
	if writeNow(w, frameDrop) {
		t.Error("a full pipe took an order")
	}
	r.Close()
	if writeNow(w, frameDrop) {
		t.Error("a pipe without a reader took an order")
	}
}
