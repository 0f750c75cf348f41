package worker

import "daybook/internal/exec/v8"

// nextJob waits for a job. Meanwhile it follows the orders of the parent about the heap that the
// last job saved.
func (s *server) nextJob(jobs <-chan *job) *job {
	for {
		select {
		case j := <-jobs:
			return j
		case <-s.asked:
			switch s.takeOrder() {
			case frameAhead:
				s.prewarmed.restore()
			case frameDrop:
				s.prewarmed.drop()
			}
		}
	}
}

func (s *server) setOrder(t frameType) {
	s.mu.Lock()
	s.order = t
	s.mu.Unlock()
	select {
	case s.asked <- struct{}{}:
	default: // it is signalled already
	}
}

// takeOrder returns the order to follow, and 0 if there is none. Each job takes the order that was
// given before it, because it is about an earlier heap.
func (s *server) takeOrder() frameType {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.order
	s.order = 0
	return t
}

// takeIsolate returns the isolate of a job. If its heap was restored ahead, inspected is set, and
// carried is the report on the heap, or nil if there is none.
func (s *server) takeIsolate(j *job, cfg v8.Config) (isolate *v8.Isolate, carried *v8.Carried, inspected bool, err error) {
	if j.FromKept {
		return s.prewarmed.takeSaved(cfg)
	}
	isolate, err = s.prewarmed.take(cfg)
	return isolate, nil, false, err
}
