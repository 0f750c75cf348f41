package worker

import (
	"errors"
	"os"
	"testing"
	"time"
)

// If an answer is being written when a run is cancelled, the worker is asked to stop after the answer.
func TestStopIsSentAfterAnAnswer(t *testing.T) {
	t.Parallel()
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	defer to.Close()
	p := &process{to: to}
	w := &runWatch{p: p}
	p.writing.Lock()
	w.stopRun(errors.New("the user asked"), false, time.Hour)
	p.writing.Unlock()
	w.sendUnsent()
	w.sendUnsent()
	if _, _, spent := w.finish(); spent {
		t.Error("the worker is not used again")
	}
	to.Close()
	in := frameReader{r: from}
	if got, _, err := in.next(); err != nil || got != frameTerminate {
		t.Errorf("the worker gets %q, %v", got, err)
	}
	if got, _, err := in.next(); err == nil {
		t.Errorf("it gets %q after that", got)
	}
}
