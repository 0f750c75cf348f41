package worker

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// cpuClock measures the CPU time of one run from outside the worker process. It bounds the
// time that a worker reports, and it replaces a missing report.
type cpuClock struct {
	p      *process
	before time.Duration
	works  bool // true if the system reports the CPU time of another process
}

// startCPUClock returns a clock that does not count what the process used before: for its
// start and for earlier runs.
func (p *process) startCPUClock() cpuClock {
	before, err := processCPUTime(p.cmd.Process.Pid)
	return cpuClock{p, before, err == nil}
}

// used returns the CPU time since the start of the clock, also after the process has ended.
// It returns false if the system does not report it.
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
		<-c.p.dead // the process was reaped since, or its clock would work
	}
	state := c.p.cmd.ProcessState
	return state.UserTime() + state.SystemTime()
}

// limitToUsed returns t, the CPU time that a worker reports, limited to what its process used. A
// script may have taken over the worker.
func (c cpuClock) limitToUsed(t time.Duration) time.Duration {
	if used, known := c.used(); known {
		return min(t, used)
	}
	return t
}

// processCPUTime returns the CPU time of a process that was not reaped. The kernel derives
// the id of the CPU clock of a process from its pid.
func processCPUTime(pid int) (time.Duration, error) {
	const cpuClockOfProcess = 2
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|cpuClockOfProcess), &t); err != nil {
		return 0, fmt.Errorf("read the CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}
