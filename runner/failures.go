package runner

import "sync"

// maxFailures limits the requests whose failed tries are counted. Above it all counts
// restart at 0, which only costs further tries.
const maxFailures = 10_000

// failures counts, by the position of a request, the tries of this runner that failed
// because something was unavailable. The number of deliveries does not show that: it
// includes deliveries of requests that were taken ahead and returned for another
// runner, and of turns that had to wait.
type failures struct {
	mu     sync.Mutex
	counts map[uint64]int // guarded by mu
}

// add counts a failed try and returns the number of failed tries.
func (f *failures) add(position uint64) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.counts == nil || len(f.counts) >= maxFailures {
		f.counts = map[uint64]int{}
	}
	f.counts[position]++
	return f.counts[position]
}

// count returns the number of failed tries.
func (f *failures) count(position uint64) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[position]
}

// forget removes the count of a finished request.
func (f *failures) forget(position uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.counts, position)
}
