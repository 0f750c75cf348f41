package witness

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// serveLimited serves a handler on loopback with at most as many connections. No time of the server ends a request.
// idle gets a value when a connection waits for its next request.
func serveLimited(t *testing.T, most int, h http.Handler) (l *limitedListener, idle <-chan struct{}) {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l = &limitedListener{Listener: inner, most: most}
	server := &http.Server{Handler: h}
	l.bind(server)
	marked, mark := make(chan struct{}, 100), server.ConnState
	server.ConnState = func(c net.Conn, state http.ConnState) {
		if mark(c, state); state == http.StateIdle {
			marked <- struct{}{}
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() {
		_ = server.Close()
		<-ended
	})
	return l, marked
}

// client is a connection of a client.
type client struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, l net.Listener) *client {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(2 * time.Minute)) // instead of a test that hangs
	return &client{t, c, bufio.NewReader(c)}
}

func (c *client) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) wantStatus(want int) {
	c.t.Helper()
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	if resp.Body.Close(); resp.StatusCode != want {
		c.t.Errorf("the answer is %s, want %d", resp.Status, want)
	}
}

func (c *client) wantClosed() {
	c.t.Helper()
	if text, err := io.ReadAll(c.in); len(text) > 0 {
		c.t.Errorf("the connection has %q (%v), want its end", text, err)
	}
}

const (
	get  = "GET /none/checkpoint HTTP/1.1\r\nHost: w\r\n\r\n"
	post = "POST /add-checkpoint HTTP/1.1\r\nHost: w\r\nContent-Length: %d\r\n\r\n"
	bad  = "old 0\n\nbad\n"

	unfinished = "POST /add-checkpoint HTTP/1.1\r\nHost: w\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n"
)

// A new connection replaces the one that has sent nothing for the longest time, or not all of its request.
func TestSlowClientsKeepNoOthersOut(t *testing.T) {
	t.Parallel()
	l, idle := serveLimited(t, 3, (&Witness{}).Handler())
	silent, used, slow := dial(t, l), dial(t, l), dial(t, l)
	slow.send(unfinished)
	slow.wantStatus(http.StatusContinue) // the handler reads the body
	used.send(get)
	used.wantStatus(http.StatusNotFound)
	<-idle // the witness waits for this client for the shortest time
	for _, ended := range []*client{silent, slow} {
		next := dial(t, l)
		next.send(fmt.Sprintf(post, len(bad)) + bad)
		next.wantStatus(http.StatusBadRequest)
		ended.wantClosed()
	}
	used.send(get)
	used.wantStatus(http.StatusNotFound)
}

// The address with the most connections loses one, also if another address waits for longer. A connection whose
// client waits for the witness is the last to be replaced.
func TestReplacedConnection(t *testing.T) {
	t.Parallel()
	type conn struct {
		address  string
		deciding bool
	}
	for name, c := range map[string]struct {
		open []conn
		want int
	}{
		"one address":           {[]conn{{"a", false}, {"a", false}}, 0},
		"most connections":      {[]conn{{"a", false}, {"b", false}, {"b", false}}, 1},
		"one is deciding":       {[]conn{{"a", true}, {"a", false}}, 1},
		"most that wait":        {[]conn{{"a", true}, {"a", true}, {"b", false}, {"c", false}, {"c", false}}, 3},
		"all are deciding":      {[]conn{{"a", true}, {"b", true}, {"b", true}}, 0},
		"equally many of three": {[]conn{{"c", false}, {"b", false}, {"a", false}}, 0},
	} {
		l := &limitedListener{most: len(c.open)}
		var list []*limitedConn
		for _, of := range c.open {
			one := &limitedConn{listener: l, address: of.address, deciding: of.deciding}
			list = append(list, one)
			if l.add(one) != nil {
				t.Errorf("%s: a connection within the bound replaces another", name)
			}
		}
		if got := l.add(&limitedConn{listener: l, address: "new"}); got != list[c.want] || len(l.open) != len(c.open) {
			t.Errorf("%s: another connection is replaced, or %d are open", name, len(l.open))
		}
	}
}

// A connection counts until it is closed, and is kept while its request is decided.
func TestConnectionsAreCounted(t *testing.T) {
	t.Parallel()
	deciding, decide := make(chan struct{}), make(chan struct{})
	l, _ := serveLimited(t, 2, http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		if in.Method == http.MethodPost {
			_, _ = io.ReadAll(in.Body)
			defer keepConnection(in.Context())()
			close(deciding)
			<-decide
		}
		out.WriteHeader(http.StatusNoContent)
	}))
	kept := dial(t, l)
	kept.send(fmt.Sprintf(post, len(bad)) + bad)
	<-deciding
	var others []*client
	for range 3 {
		others = append(others, dial(t, l))
		others[len(others)-1].send(get)
		others[len(others)-1].wantStatus(http.StatusNoContent)
	}
	others[0].wantClosed()
	others[1].wantClosed()
	close(decide)
	kept.wantStatus(http.StatusNoContent)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) != 2 {
		t.Errorf("%d connections are counted, want 2", len(l.open))
	}
}

// Requests whose bodies do not arrive leave the others their places.
func TestSlowBodiesTakeNoPlaces(t *testing.T) {
	t.Parallel()
	l, _ := serveLimited(t, 3*maxRequests, (&Witness{}).Handler())
	for range 2 * maxRequests {
		slow := dial(t, l)
		slow.send(unfinished)
		slow.wantStatus(http.StatusContinue) // the handler reads the body
	}
	honest := dial(t, l)
	honest.send(fmt.Sprintf(post, len(bad)) + bad)
	honest.wantStatus(http.StatusBadRequest)
}
