package runner

import "time"

// SetOvertime shortens how long a worker may exceed its limit.
func SetOvertime(r *Runner, d time.Duration) { r.overtime = d }
