package projections

import "daybook/events"

// watchers holds the channels of the callers that wait for events of single executions.
// With one signal for all executions, every commit would make every waiting client
// read, and reading costs more than applying.
type watchers map[executionKey]map[chan struct{}]struct{}

// Watch returns a channel that receives after each commit about an execution, whether
// the execution is known or not, and when Run has stopped permanently. Signals that are
// not received are merged into one. A caller that reads after Watch, and again after
// each signal, misses no change. The caller MUST call stop. The channel is never
// closed.
func (s *Store) Watch(tenant, execution string) (changed <-chan struct{}, stop func()) {
	return s.watch(s.watchers, tenant, execution)
}

// WatchEnd returns a channel that receives once the end of an execution can be
// read, and when Run has stopped permanently. It does not signal starts and
// output, so a caller that waits for the end reads only once. The rules of Watch
// apply: read after WatchEnd and again after the signal; stop MUST be called.
func (s *Store) WatchEnd(tenant, execution string) (ended <-chan struct{}, stop func()) {
	return s.watch(s.endWatchers, tenant, execution)
}

func (s *Store) watch(w watchers, tenant, execution string) (<-chan struct{}, func()) {
	key, signal := executionKey{tenant, execution}, make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if w[key] == nil {
		w[key] = map[chan struct{}]struct{}{}
	}
	w[key][signal] = struct{}{}
	return signal, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(w[key], signal)
		if len(w[key]) == 0 {
			delete(w, key)
		}
	}
}

// signalBatch signals the watchers of the executions of a batch.
func (w watchers) signalBatch(batch []events.Event) {
	if len(w) == 0 {
		return
	}
	for i := range batch {
		w.signal(executionKey{batch[i].Tenant, batch[i].About()})
	}
}

// signalEnds signals the watchers of the executions that end in a batch.
func (w watchers) signalEnds(batch []events.Event) {
	if len(w) == 0 {
		return
	}
	for i := range batch {
		if events.EndingOf(batch[i].Data) != nil {
			w.signal(executionKey{batch[i].Tenant, batch[i].About()})
		}
	}
}

func (w watchers) signalAll() {
	for key := range w {
		w.signal(key)
	}
}

func (w watchers) signal(key executionKey) {
	for signal := range w[key] {
		select {
		case signal <- struct{}{}:
		default: // a signal is pending already
		}
	}
}
