package httpapi

import (
	"math"
	"strconv"
	"time"

	"daybook/ledger"
)

// replaySchedule computes the pauses of a replay from the times at which the events
// were recorded.
type replaySchedule struct {
	// speed divides the pauses. +Inf removes them.
	speed float64
	// maxPause bounds a pause. 0 means no limit.
	maxPause time.Duration
	// last is the recorded time of the previous event, due the time at which the replay
	// had to send it.
	last, due time.Time
}

// newReplaySchedule parses the parameters speed and max_pause.
func newReplaySchedule(speed, longest string) (*replaySchedule, *failure) {
	p := &replaySchedule{speed: math.Inf(1)}
	if speed != "max" {
		var err error
		if p.speed, err = strconv.ParseFloat(speed, 64); err != nil || !(p.speed >= 1e-3 && p.speed <= 1e6) {
			return nil, invalid("speed", `speed must be max, or a factor from 0.001 to 1000000 such as 10, not "%s"`, ledger.Excerpt(speed))
		}
	}
	if longest != "" {
		var err error
		if p.maxPause, err = time.ParseDuration(longest); err != nil || p.maxPause <= 0 {
			return nil, invalid("max_pause", `max_pause must be a duration such as 5s or 500ms, not "%s"`, ledger.Excerpt(longest))
		}
	}
	return p, nil
}

// pauseBefore returns the pause before the next event. at is its recorded time. Delays do
// not add up: a late event does not delay the next one.
func (p *replaySchedule) pauseBefore(at, now time.Time) time.Duration {
	pause := time.Duration(0)
	if !p.last.IsZero() && at.After(p.last) {
		pause = time.Duration(min(float64(at.Sub(p.last))/p.speed, math.MaxInt64/4))
		if p.maxPause > 0 {
			pause = min(pause, p.maxPause)
		}
	}
	if at.After(p.last) {
		p.last = at
	}
	if p.due.IsZero() {
		p.due = now
	}
	p.due = p.due.Add(pause)
	return max(p.due.Sub(now), 0)
}
