package projections

import "daybook/events"

// watchers are those who wait for news of single executions. With one signal
// for all, every commit makes every waiting client read, and reading costs more
// than applying.
type watchers map[executionKey]map[chan struct{}]struct{}

// Watch returns a channel that receives after each commit about an execution,
// known or not, and when Run has stopped for good. Signals that nobody has taken
// become one. Whoever reads after Watch, and again after each signal, misses
// nothing. stop ends the watching and must be called; the channel is never
// closed.
func (s *Store) Watch(tenant, execution string) (changed <-chan struct{}, stop func()) {
	key, signal := executionKey{tenant, execution}, make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watchers[key] == nil {
		s.watchers[key] = map[chan struct{}]struct{}{}
	}
	s.watchers[key][signal] = struct{}{}
	return signal, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers[key], signal)
		if len(s.watchers[key]) == 0 {
			delete(s.watchers, key)
		}
	}
}

// tell signals those who watch what a batch is about.
func (w watchers) tell(batch []events.Event) {
	if len(w) == 0 {
		return
	}
	for i := range batch {
		w.signal(executionKey{batch[i].Tenant, batch[i].About()})
	}
}

func (w watchers) tellAll() {
	for key := range w {
		w.signal(key)
	}
}

func (w watchers) signal(key executionKey) {
	for signal := range w[key] {
		select {
		case signal <- struct{}{}:
		default: // told, and not looked yet
		}
	}
}
