package runner

import "time"

// SetOvertime shortens how long a worker may exceed its limit.
func SetOvertime(r *Runner, d time.Duration) { r.overtime = d }

// SetHandBackWait shortens how long handing back may take.
func SetHandBackWait(r *Runner, d time.Duration) { r.handBackWait = d }

// SetTurnDelay shortens how long a run waits for its turn unless it is released.
func SetTurnDelay(r *Runner, d time.Duration) { r.turnDelay = d }
