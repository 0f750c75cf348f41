package runner_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/resources/fairness"
	"daybook/internal/store/jetstream"
	"daybook/ledger"
)

// A run whose output waits ends soon after a time-out, a cancel or a shutdown. The ledger
// has the first lines of its output once, and the totals are those of the recorded lines.
func TestRunsEndWhileTheirOutputWaits(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, jetstream.Options{AckWait: time.Hour}, ledger.Options{})
	p := newProcesses(t)
	opts := b.options(p)
	// The first batch of lines uses up the rate; a second one waits for minutes.
	opts.OutputRate = fairness.Rate{PerSecond: 1000, Burst: 1000}
	opts.DrainTimeout = -1
	first, drain := b.startRunner(opts)
	const lines = 200
	long := strings.Repeat("x", 10_000)
	code := "for (let i = 0; i < 200; i++) { console.log(i + ' ' + 'x'.repeat(10000)); await null } 1"
	var whole strings.Builder
	for i := range lines {
		fmt.Fprintf(&whole, "%d %s\n", i, long)
	}
	submit := func(seconds int) string {
		return b.submit(func(s *ledger.Submission) { s.Code, s.ExecutionTimeoutSecs = code, &seconds })
	}

	slow, id := submit(1), submit(60)
	b.waitFor(id, isType(events.TypeExecutionStarted))
	b.waitAny(isType(events.TypeExecutionOutput))
	began := time.Now()
	if _, err := b.cancel(id); err != nil {
		t.Fatal(err)
	}
	for _, end := range []struct {
		id   string
		want events.Status
	}{{id, events.StatusCancelled}, {slow, events.StatusTimedOut}} {
		status, ending := b.waitForEnd(end.id)
		if status != end.want {
			t.Errorf("the run is %s, want %s: %s", status, end.want, errorText(ending))
		}
		recorded := text(b.history(end.id))
		if !strings.HasPrefix(whole.String(), strings.TrimSuffix(recorded, "\n")) || len(recorded) == whole.Len() {
			t.Errorf("%s: %d bytes are recorded, and are not the beginning of the output", end.want, len(recorded))
		}
		if o := ending.Output; o.Bytes != int64(len(recorded)) || o.SHA256 != events.Hash([]byte(recorded)) {
			t.Errorf("%s: %d bytes are recorded, the end is %+v", end.want, len(recorded), o)
		}
	}
	if d := time.Since(began); d > 20*time.Second {
		t.Errorf("the runs took %s to end", d)
	}

	id = submit(300)
	b.waitFor(id, isType(events.TypeExecutionStarted))
	drain()
	if n := first.Stats().HandedBack; n != 1 {
		t.Errorf("%d runs were handed back, want 1", n)
	}
	b.startRunner(b.options(p))
	if status, ending := b.waitForEnd(id); status != events.StatusCompleted || ending.Output.SHA256 != events.Hash([]byte(whole.String())) {
		t.Errorf("the run that was handed back is %s: %s %+v", status, errorText(ending), ending.Output)
	}
	if got := text(b.history(id)); !strings.HasSuffix(got, whole.String()) {
		t.Errorf("%d bytes are recorded of a run with %d that was handed back", len(got), whole.Len())
	}
}
