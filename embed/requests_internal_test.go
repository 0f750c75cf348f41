package embed

import (
	"errors"
	"io"
	"net"
	"net/http"
	"testing"

	"daybook/httpapi"
	"daybook/internal/web/connections"
)

// After a server was closed, no handler runs any more, also if its client has sent the next request already: then
// net/http does not notice that the connection is closed.
func TestClosedServerEndsRequests(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	started, returned := make(chan struct{}, 1), make(chan struct{})
	s := httpapi.NewServer("", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		started <- struct{}{}
		<-r.Context().Done()
		close(returned)
	}))
	limiter := connections.New(connections.Options{Name: "HTTP", Total: 10})
	limiter.Bind(s)
	served, ended := bindRequests(s), make(chan error, 1)
	go func() { ended <- s.Serve(limiter.Listener(l)) }()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
	if _, err := io.WriteString(conn, request+request); err != nil {
		t.Fatal(err)
	}
	<-started
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	served.end()
	select {
	case <-returned:
	default:
		t.Error("a handler runs after the end of the server")
	}
	if served.begin() {
		t.Error("another request begins after the end of the server")
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("the server ended: %v", err)
	}
}
