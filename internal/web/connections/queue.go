package connections

import "container/list"

// queue counts connections, and holds those without a request, ordered by their idle time.
// A nil queue is empty.
type queue struct {
	idle  list.List // of *conn, longest idle first
	at    map[*conn]*list.Element
	count int
}

func (q *queue) len() int {
	if q == nil {
		return 0
	}
	return q.count
}

// waiting returns the number of connections without a request.
func (q *queue) waiting() int {
	if q == nil {
		return 0
	}
	return q.idle.Len()
}

// oldest returns the connection that has been without a request for longest, or nil.
func (q *queue) oldest() *conn {
	if q.waiting() == 0 {
		return nil
	}
	return q.idle.Front().Value.(*conn)
}

// push adds a connection without a request.
func (q *queue) push(c *conn) {
	q.count++
	q.markIdle(c)
}

func (q *queue) drop(c *conn) {
	q.count--
	q.markBusy(c)
}

// markIdle adds a connection to the idle ones.
func (q *queue) markIdle(c *conn) {
	if q.at == nil {
		q.at = map[*conn]*list.Element{}
	}
	q.at[c] = q.idle.PushBack(c)
}

// markBusy removes a connection from the idle ones.
func (q *queue) markBusy(c *conn) {
	if e := q.at[c]; e != nil {
		q.idle.Remove(e)
		delete(q.at, c)
	}
}
