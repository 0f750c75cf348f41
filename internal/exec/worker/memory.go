package worker

import (
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"
)

// watchInterval is the interval at which the memory of running workers is checked. Between
// checks, and where /proc cannot be read, only the limit of the data segment applies.
const watchInterval = 100 * time.Millisecond

// memory is the state of the memory limit of a worker.
type memory struct {
	limit         atomic.Int64 // bytes that the present run may use, 0 for no limit
	killedAt      atomic.Int64 // bytes that the process used when it was killed for exceeding the limit
	previousLimit int64        // the limit of the newest run; only the goroutine in perform uses it
}

// boundMemory sets the memory limit of a run, in bytes. If the previous run had a higher limit
// or none, the limit of the previous run applies for the time of handover, because the worker
// may still hold the memory of that run.
func (p *process) boundMemory(w *runWatch, limit int64) {
	before := p.memory.previousLimit
	p.memory.previousLimit = limit
	if p.runs == 0 || limit == 0 || before > 0 && before <= limit {
		p.memory.limit.Store(limit)
		return
	}
	p.memory.limit.Store(before)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.after(handover, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.isFinished {
			p.memory.limit.Store(limit)
		}
	})
}

// checkMemory kills the process if it uses more memory than the limit of its run.
func (p *process) checkMemory() {
	limit := p.memory.limit.Load()
	if limit == 0 {
		return
	}
	if used := resident(p.cmd.Process.Pid); used > limit && p.memory.killedAt.CompareAndSwap(0, used) {
		p.kill()
	}
}

// resident returns the resident memory of a process without shared pages, in bytes. It returns
// 0 if the memory cannot be read.
func resident(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	var size, all, shared int64
	if _, err := fmt.Sscan(string(b), &size, &all, &shared); err != nil {
		return 0
	}
	return (all - shared) * int64(os.Getpagesize())
}

// superviseWorkers checks the memory of running workers and the age of idle ones at each
// watchInterval.
func (p *Pool) superviseWorkers() {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p.checkWorkers()
		case <-p.ctx.Done():
			return
		}
	}
}

func (p *Pool) checkWorkers() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for w := range p.running {
		w.checkMemory()
	}
	if p.closed {
		return
	}
	p.dropAhead()
	p.idle = slices.DeleteFunc(p.idle, func(w *process) bool {
		if w.alive() && time.Since(w.born) < p.opts.MaxAge {
			return false
		}
		p.discard(w)
		return true
	})
}
