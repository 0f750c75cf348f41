package owner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"daybook/events"
	"daybook/internal/link"
	"daybook/ledger"
)

// Protocols of a client on the socket.
const (
	ProtocolMCP = "mcp"
	ProtocolACP = "acp"
)

// Hello is the body of a request to attach a client.
type Hello struct {
	Protocol string `json:"protocol"`
	// Session is the named session of the runs. Empty selects the default session of
	// the owner.
	Session string `json:"session,omitempty"`
	// Connection is an id of the client, which it keeps each time that it attaches. One
	// attachment is called a link. Generation is the number of links that the client had
	// before, to this owner or to others.
	Connection string `json:"connection"`
	Generation int    `json:"generation"`
	// Settings are the flags of the client, as --name=value.
	Settings []string `json:"settings,omitempty"`
}

const (
	// maxHello is the maximum size of a hello, in bytes.
	maxHello = 1 << 20
	// upgradeName is the protocol to which a request to attach is upgraded.
	upgradeName = "daybook-link"
	// differsHeader lists the flags that differ from those of the owner.
	differsHeader = "Daybook-Differs"
	// versionHeader is the version of the owner.
	versionHeader = "Daybook-Version"
	// answerGrace is the maximum time for which an ending owner waits until the requests in
	// progress are answered. The next owner answers those that remain.
	answerGrace = 300 * time.Millisecond
	// endWait is the maximum time for which a new link of a client waits for the end of the
	// former one.
	endWait = 10 * time.Second
)

// clients are the owner's ends of all links.
type clients struct {
	ctx    context.Context //nolint:containedctx // of the clients
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup

	mu    sync.Mutex
	held  bool                    // no further client is served
	conns map[*link.Conn]struct{} // guarded by mu
	// serving maps Hello.Connection to a channel that is closed when the newest link of that
	// client ends. Guarded by mu.
	serving map[string]chan struct{}
}

func newClients() *clients {
	c := &clients{conns: map[*link.Conn]struct{}{}, serving: map[string]chan struct{}{}}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	return c
}

// enter counts a client unless the owner is ending. It reports whether the client was
// counted.
func (c *clients) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.held {
		c.wg.Add(1)
	}
	return !c.held
}

// waitForPrevious waits until the former link of a client has ended, endWait has passed or
// ctx is done. There is a former link if this owner detached the client because the client
// did not read: the client can attach again before that link has ended. The caller MUST
// call done when the new link ends.
//
// A link of generation 0 is the first one of its client and waits for none.
func (c *clients) waitForPrevious(ctx context.Context, key string, generation int) (done func()) {
	end := make(chan struct{})
	c.mu.Lock()
	before := c.serving[key]
	c.serving[key] = end
	c.mu.Unlock()
	if before != nil && generation > 0 {
		late := time.NewTimer(endWait)
		defer late.Stop()
		select {
		case <-before:
		case <-late.C:
		case <-ctx.Done():
		}
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		close(end)
		if c.serving[key] == end {
			delete(c.serving, key)
		}
	}
}

// serve serves a client that has entered.
func (c *clients) serve(ctx context.Context, conn *link.Conn, server func(context.Context, io.Reader, io.Writer) error) error {
	c.mu.Lock()
	c.conns[conn] = struct{}{}
	held := c.held
	c.mu.Unlock()
	if held {
		conn.Cut() // the client attaches to the next owner
	}
	defer func() {
		c.mu.Lock()
		delete(c.conns, conn)
		c.mu.Unlock()
	}()
	return conn.Serve(ctx, server)
}

// hold leaves further messages of clients to the next owner.
func (c *clients) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = true
	for conn := range c.conns {
		conn.Hold()
	}
}

// end leaves all clients to the next owner. Before that it waits, for at most answerGrace,
// until the requests in progress are answered; the next owner answers those that remain. end
// blocks until no client is served.
func (c *clients) end(detached error) {
	late := time.NewTimer(answerGrace)
	defer late.Stop()
	for waiting := true; waiting && c.pending(); {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-late.C:
			waiting = false
		}
	}
	c.mu.Lock()
	for conn := range c.conns {
		conn.Cut()
	}
	c.mu.Unlock()
	c.cancel(detached)
	c.wg.Wait()
}

func (c *clients) pending() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.conns {
		if conn.Pending() > 0 {
			return true
		}
	}
	return false
}

// attach upgrades a request on the socket to a link with a client.
func (s *Server) attach(w http.ResponseWriter, r *http.Request) {
	var h Hello
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxHello)).Decode(&h)
	if err == nil {
		err = h.check()
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	if !s.clients.enter() {
		refuse(w, http.StatusServiceUnavailable, "the process is ending")
		return
	}
	defer s.clients.wg.Done()
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		refuse(w, http.StatusInternalServerError, "the connection cannot be taken over")
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Time{})
	answer := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + upgradeName + "\r\n" + versionHeader + ": " + headerText(s.opts.Version) + "\r\n"
	if differs := differingFlags(h.Settings, s.opts.Settings); len(differs) > 0 {
		answer += differsHeader + ": " + strings.Join(differs, ", ") + "\r\n"
		s.opts.Logger.Warn("a client was started with other options; those of this process apply", "options", differs)
	}
	if _, err := io.WriteString(conn, answer+"\r\n"); err != nil {
		return
	}
	protocol := link.MCP
	if h.Protocol == ProtocolACP {
		protocol = link.ACP
	}
	ctx, detach := context.WithCancelCause(s.clients.ctx)
	defer detach(nil)
	end := link.NewConn(conn, buffered.Reader, link.Options{
		Protocol: protocol, Connection: h.Connection, Generation: h.Generation,
		OnProblem: func(err error) { s.opts.Logger.Warn("the connection of a client has a problem", "error", err) },
		Pace:      s.opts.Pace,
		// A client that did not read is detached. It attaches again when it reads.
		OnStall:  func() { detach(s.opts.Detached) },
		HoldLine: func(n int64) (func(), error) { return s.opts.HoldLine(ctx, n) },
	})
	defer s.clients.waitForPrevious(ctx, h.Connection, h.Generation)()
	err = s.clients.serve(ctx, end, func(ctx context.Context, in io.Reader, out io.Writer) error {
		defer detach(nil) // HoldLine may be waiting for memory for a line that is not read now
		return s.opts.Serve(ctx, h, in, out)
	})
	if err != nil {
		s.opts.Logger.Debug("a client ended", "error", err)
	}
}

func (h Hello) check() error {
	switch {
	case h.Protocol != ProtocolMCP && h.Protocol != ProtocolACP:
		return fmt.Errorf("unknown protocol %.20q: the process that sent it is of another version", h.Protocol)
	case !events.ValidHash(h.Connection):
		return errors.New("the id of the connection must have 64 hex characters")
	case h.Session != "":
		return ledger.CheckSession(h.Session)
	}
	return nil
}

// differingFlags returns the names of the flags whose values differ, each once.
func differingFlags(asked, inForce []string) (names []string) {
	for _, side := range [][2][]string{{asked, inForce}, {inForce, asked}} {
		for _, flag := range side[0] {
			name, _, _ := strings.Cut(flag, "=")
			if name = headerText(name); !slices.Contains(side[1], flag) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// headerText keeps the visible ASCII characters of s, except commas: a comma separates the
// flags of differsHeader.
func headerText(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x21 || r > 0x7e || r == ',' {
			return -1
		}
		return r
	}, s)
}
