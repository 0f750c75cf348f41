package embed

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// endTimeout bounds the wait for the handlers of a closed server.
const endTimeout = 5 * time.Second

// requests are the requests that an HTTP server serves. The server ends the context of a request only when it
// notices that the connection is closed. While a handler runs, it does not notice that if the client has sent a part
// of the next request.
type requests struct {
	stop context.CancelFunc

	mu      sync.Mutex
	running int           // guarded by mu
	isEnded bool          // guarded by mu
	ended   chan struct{} // closed after isEnded is set and no request runs
}

// bindRequests counts the requests of a server that does not serve yet.
func bindRequests(s *http.Server) *requests {
	q := &requests{ended: make(chan struct{})}
	ctx, stop := context.WithCancel(context.Background())
	q.stop = stop
	base, next := s.BaseContext, s.Handler
	s.BaseContext = func(l net.Listener) context.Context {
		from, stop := context.WithCancel(base(l))
		context.AfterFunc(ctx, stop)
		return from
	}
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !q.begin() {
			panic(http.ErrAbortHandler)
		}
		defer q.finish()
		next.ServeHTTP(w, r)
	})
	return q
}

// begin counts a request. It reports false if the server was closed.
func (q *requests) begin() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.isEnded {
		return false
	}
	q.running++
	return true
}

func (q *requests) finish() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running--; q.running == 0 && q.isEnded {
		close(q.ended)
	}
}

// end ends the contexts of the requests of a closed server, and waits for their handlers, at most endTimeout.
func (q *requests) end() {
	q.mu.Lock()
	q.isEnded = true
	if q.running == 0 {
		close(q.ended)
	}
	q.mu.Unlock()
	q.stop()
	select {
	case <-q.ended:
	case <-time.After(endTimeout):
	}
}
