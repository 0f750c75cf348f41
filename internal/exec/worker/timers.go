package worker

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"daybook/internal/exec/v8"
	"daybook/runner"
)

// Limits of the reports of timers.
const (
	// maxTimerReports is the number of timers of a run that are reported. The run then
	// continues without reports.
	maxTimerReports = 10000
	// maxTimerName is the maximum size of the name of a callback, in bytes.
	maxTimerName = 128
	// maxFired limits the number of timers that a worker may count. No run reaches it.
	maxFired = 1 << 40
)

// timerMessage reports a timer that fires, before its callback runs.
type timerMessage struct {
	AtMicros    int64  `json:"at_micros"`
	Kind        int    `json:"kind"` // an index of timerKinds
	DelayMillis int64  `json:"delay_millis"`
	Name        string `json:"name"`
}

// timerKinds are the kinds of timers. A frame holds the index.
var timerKinds = [...]runner.TimerKind{v8.Timeout: runner.TimerTimeout, v8.Interval: runner.TimerInterval, v8.Immediate: runner.TimerImmediate}

// timerReporter is the worker's end of the reports of timers: it sends a frame for each.
type timerReporter struct {
	server *server
	sink   *lineSink
	fired  int64
}

// TimerFires implements v8.Timers. It sends the report after the output that precedes it.
func (r *timerReporter) TimerFires(t v8.Timer) error {
	if r.fired++; r.fired > maxTimerReports {
		return nil
	}
	if err := r.sink.flush(); err != nil {
		return err
	}
	return r.server.message(frameTimer, timerMessage{AtMicros: clockMicros(t.At), Kind: int(t.Kind), DelayMillis: t.Delay.Milliseconds(), Name: t.Name})
}

// clockMicros returns a time of the script's clock within the times that a frame can hold.
func clockMicros(at time.Time) int64 { return min(max(at.UnixMicro(), earliestLine), latestLine) }

// timers checks the reports of timers for a frameChecker.
type timers struct {
	isAsked bool // the task asks for reports
	reports int64
	fired   *runner.TimerFired // the last report, until it is passed on
}

func (c *timers) take(payload []byte) error {
	var m timerMessage
	if err := decodeMessage(payload, &m); err != nil {
		return err
	}
	switch {
	case !c.isAsked:
		return errors.New("a report of a timer that the task does not ask for")
	case c.reports >= maxTimerReports:
		return fmt.Errorf("more than %d reports of timers", maxTimerReports)
	case m.AtMicros < earliestLine || m.AtMicros > latestLine:
		return fmt.Errorf("a timer at %d", m.AtMicros)
	case m.Kind < 0 || m.Kind >= len(timerKinds):
		return fmt.Errorf("a timer of kind %d", m.Kind)
	case m.DelayMillis < 0 || m.DelayMillis >= 1<<31:
		return fmt.Errorf("a timer with a delay of %d", m.DelayMillis)
	case len(m.Name) > maxTimerName || !utf8.ValidString(m.Name):
		return fmt.Errorf("a callback with a name of %d bytes", len(m.Name))
	}
	c.reports++
	c.fired = &runner.TimerFired{At: time.UnixMicro(m.AtMicros).UTC(), Kind: timerKinds[m.Kind], Delay: time.Duration(m.DelayMillis) * time.Millisecond, Name: m.Name}
	return nil
}

// checkEnd checks the members of an end that belong to reports.
func (c *timers) checkEnd(e *endHeader) error {
	switch {
	case !c.isAsked && (e.TimersFired != 0 || e.ClockMicros != 0):
		return errors.New("a count of timers that the task does not ask for")
	case e.TimersFired < c.reports || e.TimersFired > maxFired:
		return fmt.Errorf("%d timers fired, and %d were reported", e.TimersFired, c.reports)
	case e.ClockMicros < earliestLine || e.ClockMicros > latestLine:
		return fmt.Errorf("an end at %d", e.ClockMicros)
	}
	return nil
}
