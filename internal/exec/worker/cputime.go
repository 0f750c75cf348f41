package worker

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// cpuClock measures the CPU time of one run from outside the worker process, for
// ends at which the worker reports nothing.
type cpuClock struct {
	p      *process
	before time.Duration
	works  bool // the system reports the CPU time of another process
}

// startCPUClock starts a clock at what the process has used so far: its start, and
// earlier runs.
func (p *process) startCPUClock() cpuClock {
	before, err := processCPUTime(p.cmd.Process.Pid)
	return cpuClock{p, before, err == nil}
}

// used returns the CPU time since the start of the clock, also after the process has
// ended. It is false where the system does not report it.
func (c cpuClock) used() (time.Duration, bool) {
	if !c.works {
		return 0, false
	}
	return max(c.now()-c.before, 0), true
}

func (c cpuClock) now() time.Duration {
	if c.p.alive() {
		if t, err := processCPUTime(c.p.cmd.Process.Pid); err == nil {
			return t
		}
		<-c.p.dead // it has just been reaped, or its clock would work
	}
	state := c.p.cmd.ProcessState
	return state.UserTime() + state.SystemTime()
}

// reported returns what the worker reports, bounded by what its process used: a
// script may have taken over the worker.
func (c cpuClock) reported(t time.Duration) time.Duration {
	if used, known := c.used(); known {
		return min(t, used)
	}
	return t
}

// processCPUTime returns the CPU time of a process that has not been reaped. The
// kernel numbers the CPU clock of a process by its pid.
func processCPUTime(pid int) (time.Duration, error) {
	const cpuClockOfProcess = 2
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|cpuClockOfProcess), &t); err != nil {
		return 0, fmt.Errorf("read the CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}
