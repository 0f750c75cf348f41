package worker

import (
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"daybook/runner"
)

const (
	// maxAheadHeap and maxAheadPeak are the largest heap that is restored ahead, and the largest
	// peak of the V8 heap of the run that saved it, in bytes. A saved heap can be smaller than
	// the memory that it takes.
	maxAheadHeap = 4 << 20
	maxAheadPeak = 32 << 20
	// maxAheadBytes limits the heaps that all idle workers keep, in bytes.
	maxAheadBytes = 16 << 20
	// aheadDelay is how long a worker must be idle before it restores a heap ahead. The worker
	// of a busy server gets its next run earlier, and no time is taken from that run. The worker
	// still disposes of the isolate of its last run then.
	aheadDelay = 2 * time.Millisecond
	// aheadAge is how long a heap is kept for a next run.
	aheadAge = 30 * time.Second
)

// aheadHeap is the heap that an idle worker saved in its last run and restores ahead of the next
// one. The pool's mu guards it.
type aheadHeap struct {
	// key is the task's HeapKey of the next run. It is empty until the heap is stored.
	key                    string
	size                   int // in bytes; 0 if the heap must be dropped
	heapLimit, bufferLimit int64
	since                  time.Time
	timer                  *time.Timer // asks the worker to restore the heap
}

// mayKeepHeap reports whether a worker keeps the heap that the task saves.
func (o Options) mayKeepHeap(t *runner.Task) bool {
	return t.RestoreAhead && t.Stateful && o.Idle >= 0 && o.Ahead > 0 && o.isReusable(o.owner(t))
}

// newAhead returns the heap that a worker keeps which was asked to keep the heap of a task. It
// sets HeapStored of the outcome.
func (p *Pool) newAhead(t *runner.Task, o *runner.Outcome) *aheadHeap {
	a := &aheadHeap{size: len(o.Heap), heapLimit: t.HeapLimitBytes, bufferLimit: t.ArrayBufferLimitBytes}
	if a.size == 0 || a.size > maxAheadHeap || o.PeakHeapBytes > maxAheadPeak {
		return &aheadHeap{}
	}
	o.HeapStored = func(key string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		a.key = key
	}
	return a
}

// isFor reports whether a task starts from the heap.
func (a *aheadHeap) isFor(t *runner.Task) bool {
	return a.key != "" && a.key == t.HeapKey && a.size == len(t.Heap) && a.heapLimit == t.HeapLimitBytes && a.bufferLimit == t.ArrayBufferLimitBytes &&
		t.Stateful && !t.ListGlobals
}

// takeAhead removes the idle worker that keeps the heap of the task from the pool, and returns it.
// It returns nil if there is none.
func (p *Pool) takeAhead(t *runner.Task) *process {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || t.HeapKey == "" {
		return nil
	}
	who := p.opts.owner(t)
	for i, w := range p.idle {
		if w.ahead == nil || w.owner != who || !w.ahead.isFor(t) || !w.alive() || time.Since(w.born) >= p.opts.MaxAge {
			continue
		}
		p.idle = slices.Delete(p.idle, i, i+1)
		w.forgetAhead()
		p.running[w] = struct{}{}
		p.using.Add(1)
		p.replenish()
		return w
	}
	return nil
}

// keepAhead lets an idle worker keep the heap of its last run, and asks it to restore the heap if
// it is still idle after aheadDelay. The caller must hold p.mu.
func (p *Pool) keepAhead(w *process, a *aheadHeap) {
	if a.size == 0 || p.opts.MemoryShort() {
		p.drop(w)
		return
	}
	a.since = time.Now()
	a.timer = time.AfterFunc(aheadDelay, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if w.ahead == a && !p.closed {
			w.order(frameAhead)
		}
	})
	w.ahead = a
	for {
		worst := p.surplusAhead()
		if worst == nil {
			return
		}
		p.drop(worst)
	}
}

// surplusAhead returns the idle worker whose heap must be dropped, because more are kept than
// allowed; nil if there is none. It selects the heap that the tenant with the most bytes kept the
// longest. The caller must hold p.mu.
func (p *Pool) surplusAhead() *process {
	count, bytes, of := 0, 0, map[string]int{}
	for _, w := range p.idle {
		if w.ahead != nil {
			count, bytes = count+1, bytes+w.ahead.size
			of[w.owner.tenant] += w.ahead.size
		}
	}
	if count <= p.opts.Ahead && bytes <= maxAheadBytes {
		return nil
	}
	var worst *process
	for _, w := range p.idle { // oldest first
		if w.ahead != nil && (worst == nil || of[w.owner.tenant] > of[worst.owner.tenant]) {
			worst = w
		}
	}
	return worst
}

// dropAhead makes idle workers drop their heaps: those that were not used for aheadAge, and all
// while memory is short. The caller must hold p.mu.
func (p *Pool) dropAhead() {
	var now time.Time
	isShort := false
	for _, w := range p.idle {
		if w.ahead == nil {
			continue
		}
		if now.IsZero() {
			now, isShort = time.Now(), p.opts.MemoryShort()
		}
		if isShort || now.Sub(w.ahead.since) >= p.aheadAge {
			p.drop(w)
		}
	}
}

// drop makes an idle worker drop its heap. The caller must hold p.mu.
func (p *Pool) drop(w *process) {
	w.forgetAhead()
	w.order(frameDrop)
}

// forgetAhead marks the worker as one that keeps no heap. The caller must hold the pool's mu.
func (p *process) forgetAhead() {
	if p.ahead != nil {
		p.ahead.timer.Stop()
		p.ahead = nil
	}
}

// order sends a frame without a payload to an idle worker. The caller must hold the pool's mu, so
// that no task is sent before it. An honest worker reads its pipe. A worker whose pipe is full is
// killed: nothing waits for it under the lock.
func (p *process) order(t frameType) {
	p.writing.Lock()
	defer p.writing.Unlock()
	if !writeNow(p.to, t) {
		p.kill()
	}
}

// writeNow writes a frame without a payload if a pipe has space for it, and reports whether it did.
// It never waits, and never writes a part: a pipe takes so few bytes at once.
func writeNow(to *os.File, t frameType) bool {
	frame := []byte{0, 0, 0, 1, byte(t)}
	raw, err := to.SyscallConn()
	if err != nil {
		return false
	}
	n := 0
	err = raw.Write(func(fd uintptr) bool {
		n, _ = unix.Write(int(fd), frame) // os.Pipe made it non-blocking
		return true
	})
	return err == nil && n == len(frame)
}
