package runner

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"daybook/events"
	"daybook/internal/resources/fairness"
	"daybook/ledger"
)

// nullLog records nothing.
type nullLog struct{}

func (nullLog) AppendOutput(context.Context, *ledger.StartedAttempt, int64, int64, []events.Line) (uint64, error) {
	return 1, nil
}
func (nullLog) TruncateOutput(context.Context, *ledger.StartedAttempt, int64, int64, int64) error {
	return nil
}

// pacedPump starts a pump of a tenant. The caller MUST call finish.
func pacedPump(t *testing.T, pace *outputPace, tenant string, limit int64) *pump {
	return loggedPump(t, nullLog{}, pace, tenant, limit)
}

func loggedPump(t *testing.T, log OutputLog, pace *outputPace, tenant string, limit int64) *pump {
	start := newFuture[*ledger.StartedAttempt]()
	start.set(&ledger.StartedAttempt{}, nil)
	plan := ledger.Plan{FirstLine: 1}
	plan.Request.Tenant = tenant
	p := newPump(log, &start, plan, limit)
	p.pace = pace
	go func() {
		if err := p.run(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	return p
}

func text(n int) []events.Line { return []events.Line{{Text: strings.Repeat("x", n)}} }

func TestOnlyMuchOutputWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const mib = 1 << 20
		pace := newOutputPace(fairness.Rate{PerSecond: mib, Burst: 4 * mib, Reserve: mib, Little: mib / 8})
		began := time.Now()
		loud := pacedPump(t, pace, "loud", 0)
		done := make(chan time.Duration)
		go func() {
			for range 13 {
				if err := loud.write(t.Context(), text(mib-1000)); err != nil {
					t.Error(err)
				}
			}
			done <- time.Since(began)
		}()
		quiet := pacedPump(t, pace, "quiet", 0)
		for range 8 {
			time.Sleep(time.Second)
			before := time.Now()
			if err := quiet.write(t.Context(), text(1000)); err != nil {
				t.Fatal(err)
			}
			if d := time.Since(before); d > 0 {
				t.Errorf("a short line of another tenant waited %s", d)
			}
		}
		// Three MiB come from the burst; one MiB per second follows.
		if d := <-done; d < 9*time.Second || d > 11*time.Second {
			t.Errorf("13 MiB took %s", d)
		}
		for _, p := range []*pump{loud, quiet} {
			if _, err := p.finish(); err != nil {
				t.Error(err)
			}
		}
	})
}

// Output that is larger than the reserve does not use it up.
func TestLargeOutputLeavesTheReserve(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const mib = 1 << 20
		pace := newOutputPace(fairness.Rate{PerSecond: mib, Burst: 4 * mib, Reserve: mib, Little: mib / 8})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- pace.wait(ctx, "loud", 20*mib) }()
		for range 8 {
			time.Sleep(time.Second)
			before := time.Now()
			if err := pace.wait(t.Context(), "quiet", 1000); err != nil {
				t.Fatal(err)
			}
			if d := time.Since(before); d > 0 {
				t.Errorf("a short line of another tenant waited %s", d)
			}
		}
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("20 MiB were admitted within 8 s: %v", err)
		}
		if n := len(pace.waiters); n != 0 {
			t.Errorf("%d requests wait", n)
		}
	})
}

func TestOutputThatWaitsEndsWithItsRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pace := newOutputPace(fairness.Rate{PerSecond: 10_000, Burst: 10_000})
		p := pacedPump(t, pace, "a", 0)
		if err := p.write(t.Context(), text(1_000_000)); err != nil {
			t.Fatal(err)
		}
		stopped := errors.New("stopped")
		ctx, stop := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { stop(stopped) })
		if err := p.write(ctx, text(10)); !errors.Is(err, stopped) {
			t.Errorf("write returned %v", err)
		}
		// Accepted output is recorded at once.
		before := time.Now()
		totals, err := p.finish()
		if err != nil || totals.Bytes != 1_000_001 {
			t.Errorf("recorded %d bytes, %v", totals.Bytes, err)
		}
		if d := time.Since(before); d > time.Second {
			t.Errorf("the end took %s", d)
		}
		// Output that was not accepted does not delay the next output.
		before = time.Now()
		if err := pace.wait(t.Context(), "b", 1); err != nil {
			t.Error(err)
		}
		if d := time.Since(before); d < 95*time.Second || d > 105*time.Second {
			t.Errorf("the next output waited %s", d)
		}
	})
}

// Output that a run wrote before it was stopped is recorded if it need not wait.
func TestOutputOfAStoppedRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pace := newOutputPace(fairness.Rate{PerSecond: 1000, Burst: 50_000})
		p := pacedPump(t, pace, "a", 0)
		stopped := errors.New("stopped")
		ctx, stop := context.WithCancelCause(t.Context())
		stop(stopped)
		before := time.Now()
		for range 3 {
			if err := p.write(ctx, text(20_000)); err != nil {
				t.Errorf("write returned %v while output need not wait", err)
			}
		}
		if err := p.write(ctx, text(1)); !errors.Is(err, stopped) {
			t.Errorf("write returned %v while output has to wait", err)
		}
		if totals, err := p.finish(); err != nil || totals.Bytes != 3*20_001 {
			t.Errorf("recorded %d bytes, %v", totals.Bytes, err)
		}
		if d := time.Since(before); d > 0 {
			t.Errorf("the end took %s", d)
		}
	})
}

// slowLog takes a second for each chunk.
type slowLog struct{ nullLog }

func (slowLog) AppendOutput(context.Context, *ledger.StartedAttempt, int64, int64, []events.Line) (uint64, error) {
	time.Sleep(time.Second)
	return 1, nil
}

// The output of a stopped run waits for a slow ledger for less time than the worker has
// until it is killed.
func TestOutputOfAStoppedRunAndASlowLedger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := loggedPump(t, slowLog{}, nil, "a", 0)
		stopped := errors.New("stopped")
		ctx, stop := context.WithCancelCause(t.Context())
		time.AfterFunc(100*time.Millisecond, func() { stop(stopped) })
		var err error
		for err == nil {
			err = p.write(ctx, text(10_000))
		}
		if !errors.Is(err, stopped) {
			t.Errorf("write returned %v", err)
		}
		before := time.Now()
		if err := p.write(ctx, text(10_000)); !errors.Is(err, stopped) {
			t.Errorf("another write returned %v", err)
		}
		if d := time.Since(before); d > 0 {
			t.Errorf("another write took %s", d)
		}
		if late := time.Since(p.writeDeadline); late < 0 || late > 10*time.Millisecond {
			t.Errorf("output waited until %s after its time", late)
		}
		if _, err := p.finish(); err != nil {
			t.Error(err)
		}
	})
}

func TestOutputAboveTheCapDoesNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pace := newOutputPace(fairness.Rate{PerSecond: 1000, Burst: 100_000})
		p := pacedPump(t, pace, "a", 10_000)
		before := time.Now()
		for range 100 {
			if err := p.write(t.Context(), text(9_999)); err != nil {
				t.Fatal(err)
			}
		}
		if d := time.Since(before); d > 0 {
			t.Errorf("output that is not recorded waited %s", d)
		}
		if totals, err := p.finish(); err != nil || !totals.Truncated {
			t.Errorf("%+v, %v", totals, err)
		}
	})
}

func TestRecordedBytes(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]string{
		"letters": "abc", "controls": "\x00\x01\t\n\x1f", "escaped": `"\<>&`, "separators": "\u2028\u2029", "other": "äöü€😀\x7f",
	} {
		lines := []events.Line{{Text: strings.Repeat(s, 1000), Level: events.LevelError, TimeMillis: 1_700_000_000_000}, {Continued: true}}
		raw, err := json.Marshal(events.Plain(events.OutputContent{Lines: lines}))
		if err != nil {
			t.Fatal(err)
		}
		got, want := recordedBytes(lines, false), int64(len(raw))
		if got < want || got > want+want/3+chunkOverhead+2*lineOverhead {
			t.Errorf("%s: %d bytes are counted, an event has %d", name, got, want)
		}
		if sealed := recordedBytes(lines, true); sealed < got*4/3-1 {
			t.Errorf("%s: %d bytes are counted with encryption, %d without", name, sealed, got)
		}
	}
}
