package connections

import (
	"container/list"
	"sync"
	"time"
)

const (
	// placeTimeout is the minimum time that a stream waits for its place before its
	// request is refused. Only one such stream of a connection is refused at a time.
	placeTimeout = time.Second
	// refuseTime is the minimum time between two such refusals of all connections. The
	// header of a refused request is decoded, and the streams of many connections
	// become late at the same time.
	refuseTime = 4 * time.Millisecond
)

// streams counts the streams of all HTTP/2 connections.
type streams struct {
	max  int
	wait time.Duration // minimum wait for a place before a stream is refused

	mu      sync.Mutex
	open    int
	waiting list.List // of waiter, longest wait first
	refuser *time.Timer
	refused time.Time // time of the last refusal
}

// waiter is a stream that waits for a place. It receives true with a place, and false
// if it is refused.
type waiter struct {
	result chan bool
	since  time.Time
}

// take takes a place: immediately if always is true, otherwise when fewer than s.max are
// taken. It reports false if the stream is refused or done is closed.
func (s *streams) take(always bool, done <-chan struct{}) bool {
	s.mu.Lock()
	if always || s.open < s.max {
		s.open++
		s.mu.Unlock()
		return true
	}
	w := waiter{make(chan bool, 1), time.Now()}
	at := s.waiting.PushBack(w)
	if s.waiting.Len() == 1 {
		s.refuseNext()
	}
	s.mu.Unlock()
	select {
	case taken := <-w.result:
		return taken
	case <-done:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case taken := <-w.result: // received a result meanwhile
		return taken
	default:
		s.waiting.Remove(at)
		return false
	}
}

// refuseNext sets the time at which the longest waiter is refused. The caller must hold
// mu.
func (s *streams) refuseNext() {
	at := s.waiting.Front().Value.(waiter).since.Add(s.wait)
	if next := s.refused.Add(refuseTime); at.Before(next) {
		at = next
	}
	if s.refuser == nil {
		s.refuser = time.AfterFunc(time.Until(at), s.refuse)
	} else {
		s.refuser.Reset(time.Until(at))
	}
}

// refuse refuses the longest waiter if it has waited long enough.
func (s *streams) refuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if front := s.waiting.Front(); front != nil && now.Sub(s.refused) >= refuseTime {
		if w := front.Value.(waiter); now.Sub(w.since) >= s.wait {
			s.waiting.Remove(front)
			w.result <- false
			s.refused = now
		}
	}
	if s.waiting.Len() > 0 {
		s.refuseNext()
	}
}

// release releases n places.
func (s *streams) release(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open -= n
	for s.open < s.max && s.waiting.Len() > 0 {
		s.open++
		s.waiting.Remove(s.waiting.Front()).(waiter).result <- true
	}
}
