package worker

import (
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"
)

// watchInterval is how often the memory of running workers is looked at. Until
// then, and where the look is not permitted, the limit of the data segment holds.
const watchInterval = 100 * time.Millisecond

// memory is what the watch knows about a worker's.
type memory struct {
	limit    atomic.Int64 // bytes the present run may use, 0 for no limit
	killedAt atomic.Int64 // bytes it used when it was killed for that
	before   int64        // the limit of the newest run; of the goroutine that runs it
}

// boundMemory bounds the memory of a run, in bytes. While the worker may still have what
// the run before was permitted, that is the bound.
func (p *process) boundMemory(w *watch, limit int64) {
	before := p.memory.before
	p.memory.before = limit
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
		if !w.over {
			p.memory.limit.Store(limit)
		}
	})
}

// check kills the process if it uses more memory than its run may.
func (p *process) checkMemory() {
	limit := p.memory.limit.Load()
	if limit == 0 {
		return
	}
	if used := resident(p.cmd.Process.Pid); used > limit && p.memory.killedAt.CompareAndSwap(0, used) {
		p.kill()
	}
}

// resident is the memory that a process has for itself alone, in bytes; 0 if that
// cannot be told.
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

// superviseWorkers bounds what time alone brings about: the memory of running workers, the
// age of idle ones.
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
	p.idle = slices.DeleteFunc(p.idle, func(w *process) bool {
		if w.alive() && time.Since(w.born) < p.opts.MaxAge {
			return false
		}
		p.discard(w)
		return true
	})
}
