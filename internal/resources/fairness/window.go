package fairness

import (
	"cmp"
	"slices"
)

// maxRemembered bounds how many sessions without a request a Window remembers.
const maxRemembered = 1024

// Window holds requests of one tenant and takes them by session in turn: Take returns
// the oldest request of the session that was served least recently. It is not safe for
// concurrent use. The zero value is ready to use.
type Window[T any] struct {
	queues map[string][]entry[T]
	// served maps a session to the turn at which it was served last.
	served     map[string]uint64
	turn       uint64
	addedCount uint64
	size       int
}

type entry[T any] struct {
	order uint64
	item  T
}

// Add adds a request to the end of its session's queue.
func (w *Window[T]) Add(session string, item T) {
	if w.queues == nil {
		w.queues, w.served = map[string][]entry[T]{}, map[string]uint64{}
	}
	w.addedCount++
	w.queues[session] = append(w.queues[session], entry[T]{w.addedCount, item})
	w.size++
}

// Len returns the number of requests in the window.
func (w *Window[T]) Len() int { return w.size }

// Take removes and returns the request whose turn it is. It reports false if the window
// is empty.
func (w *Window[T]) Take() (item T, ok bool) {
	var chosen string
	var oldest uint64
	for session, q := range w.queues {
		if !ok || cmp.Or(cmp.Compare(w.served[session], w.served[chosen]), cmp.Compare(q[0].order, oldest)) < 0 {
			chosen, oldest, ok = session, q[0].order, true
		}
	}
	if !ok {
		return item, false
	}
	q := w.queues[chosen]
	item = q[0].item
	w.drop(chosen, 0)
	w.turn++
	w.served[chosen] = w.turn
	w.forget()
	return item, true
}

// Newest removes and returns up to n requests, the newest first.
func (w *Window[T]) Newest(n int) []T {
	var items []T
	for len(items) < n && w.size > 0 {
		var chosen string
		var newest uint64
		for session, q := range w.queues {
			if last := q[len(q)-1].order; last > newest {
				chosen, newest = session, last
			}
		}
		i := len(w.queues[chosen]) - 1
		items = append(items, w.queues[chosen][i].item)
		w.drop(chosen, i)
	}
	return items
}

// Each calls fn for each request in the window, in no particular order.
func (w *Window[T]) Each(fn func(T)) {
	for _, q := range w.queues {
		for _, e := range q {
			fn(e.item)
		}
	}
}

func (w *Window[T]) drop(session string, i int) {
	if q := slices.Delete(w.queues[session], i, i+1); len(q) > 0 {
		w.queues[session] = q
	} else {
		delete(w.queues, session)
	}
	w.size--
}

// forget drops the sessions that were served longest ago if there are too many.
func (w *Window[T]) forget() {
	if len(w.served) <= 2*maxRemembered+len(w.queues) {
		return
	}
	for session, turn := range w.served {
		if _, queued := w.queues[session]; !queued && turn+maxRemembered < w.turn {
			delete(w.served, session)
		}
	}
}
