package runner

import "sync"

// maxFailures bounds the requests whose failed tries are counted. Above it counting
// starts over, which only costs further tries.
const maxFailures = 10_000

// failures counts, by the position of a request, the tries of this runner that
// failed because something was unavailable. The count of deliveries does not show that:
// it includes requests that were taken ahead and given back to another runner, and
// turns that had to wait.
type failures struct {
	mu sync.Mutex
	by map[uint64]int // guarded by mu
}

// add counts a failed try and returns how many there were.
func (f *failures) add(position uint64) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.by == nil || len(f.by) >= maxFailures {
		f.by = map[uint64]int{}
	}
	f.by[position]++
	return f.by[position]
}

// count returns how many failed tries there were.
func (f *failures) count(position uint64) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.by[position]
}

// forget ends the counting of a request that is dealt with.
func (f *failures) forget(position uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.by, position)
}
