package witness

import (
	"errors"
	"net"
	"testing"
	"testing/synctest"
)

// pipes is a listener whose connections are pipes. Each Accept is reported.
type pipes struct {
	accepted chan net.Conn
	closed   chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	server, client := net.Pipe()
	select {
	case p.accepted <- client:
		return server, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return nil }

// At most as many connections are open as there are places. The next one waits until one is closed,
// and the end of the listener ends the wait.
func TestConnectionsAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testLimit)
}

func testLimit(t *testing.T) {
	inner := &pipes{accepted: make(chan net.Conn, 10), closed: make(chan struct{})}
	l := &limitedListener{Listener: inner, places: make(chan struct{}, 2), closed: make(chan struct{})}
	conns, ended := make(chan net.Conn, 10), make(chan error, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				ended <- err
				return
			}
			conns <- c
		}
	}()
	wantServed := func(want int) {
		t.Helper()
		if synctest.Wait(); len(conns) != want || len(inner.accepted) != want {
			t.Fatalf("%d connections are served, and %d were accepted; want %d", len(conns), len(inner.accepted), want)
		}
	}
	wantServed(2)
	first := <-conns
	conns <- first
	_ = first.Close()
	_ = first.Close() // it frees no second place
	wantServed(3)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("the end: %v", err)
	}
}
