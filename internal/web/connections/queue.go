package connections

import "container/list"

// queue holds connections and knows which has been without a request for longest.
// A nil queue is empty.
type queue struct {
	idle  list.List // of *conn, the longest idle first
	at    map[*conn]*list.Element
	count int
}

func (q *queue) len() int {
	if q == nil {
		return 0
	}
	return q.count
}

// waiting is how many connections have no request.
func (q *queue) waiting() int {
	if q == nil {
		return 0
	}
	return q.idle.Len()
}

// oldest is the connection that has been without a request for longest, or nil.
func (q *queue) oldest() *conn {
	if q.waiting() == 0 {
		return nil
	}
	return q.idle.Front().Value.(*conn)
}

// push adds a connection, which has no request yet.
func (q *queue) push(c *conn) {
	q.count++
	q.wait(c)
}

// drop removes a connection.
func (q *queue) drop(c *conn) {
	q.count--
	q.work(c)
}

// wait notes that a connection has no request from now on.
func (q *queue) wait(c *conn) {
	if q.at == nil {
		q.at = map[*conn]*list.Element{}
	}
	q.at[c] = q.idle.PushBack(c)
}

// work notes that a connection has a request.
func (q *queue) work(c *conn) {
	if e := q.at[c]; e != nil {
		q.idle.Remove(e)
		delete(q.at, c)
	}
}
