package runner

import "time"

// SetTimeoutGrace shortens the time that a worker may exceed its limit.
func SetTimeoutGrace(r *Runner, d time.Duration) { r.timeoutGrace = d }

// SetHandBackTimeout shortens the time that a hand-back may take.
func SetHandBackTimeout(r *Runner, d time.Duration) { r.handBackTimeout = d }

// SetTurnDelay shortens how long a run waits for its turn unless it is released.
func SetTurnDelay(r *Runner, d time.Duration) { r.turnDelay = d }
