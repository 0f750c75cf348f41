package link

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Conn is the owner's end of a link with one client. Serve gives its server a stream of
// JSON-RPC messages, one per line. It is safe for concurrent use.
type Conn struct {
	conn       net.Conn
	r          *bufio.Reader
	protocol   Protocol
	key        string
	generation int
	onProblem  func(error)
	pace       Pace
	onStall    func()
	hold       func(n int64) (release func(), err error)

	isHolding, isCut atomic.Bool
	ended            chan struct{} // closed after the server has returned

	writing sync.Mutex // guards writes to conn and the order of messages
	rest    []byte     // of a line that the server has not ended yet; guarded by writing
	// progress is the progress of the client. Guarded by writing.
	progress progress

	mu           sync.Mutex
	calls        map[string][]*call         // by id, the oldest first
	serverIDs    map[string]json.RawMessage // the server's ids of its requests, by the ids that the client knows
	refusedLines []uint64                   // lines that the server did not accept as requests; the next frames report them as done
}

// call is a request of the client that has no answer yet.
type call struct {
	message
	number      uint64
	again       bool
	skip        int  // messages about it that the client has already received
	isDelivered bool // the server has called NextDelivery
	isWithdrawn bool // the client does not wait for the answer
	// restored is closed when a line of the connection's state is answered. It is nil
	// for a line of the client.
	restored chan struct{}
}

// message holds the members of a JSON-RPC message that a link reads.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// Options configures a Conn. Protocol and Connection are required.
type Options struct {
	Protocol Protocol
	// Connection identifies the client's connection to every owner. It is a secret of
	// the two ends. Generation is the number of owners that the client had before.
	Connection string
	Generation int
	// OnProblem is called with errors that neither end receives. nil ignores them.
	OnProblem func(error)
	// Pace is the minimum speed at which the client must receive messages. The zero
	// value sets none. OnStall is called before the connection of a slower client is
	// closed. nil does nothing.
	Pace    Pace
	OnStall func()
	// HoldLine waits until n bytes of memory may be used for a line, which is read after
	// that. Conn calls release when the server has the line. An error ends the
	// connection. nil never waits. HoldLine is not called for lines of at most 64 KiB.
	HoldLine func(n int64) (release func(), err error)
}

const (
	// lineCopies is the number of copies of a line in memory until the server has it.
	// uncountedLine is the size in bytes up to which HoldLine is not called.
	lineCopies    = 3
	uncountedLine = 64 << 10
)

// NewConn returns the owner's end of a link. r is a reader of conn that may have
// buffered data. The caller calls Serve, which closes conn.
func NewConn(conn net.Conn, r *bufio.Reader, o Options) *Conn {
	if o.OnProblem == nil {
		o.OnProblem = func(error) {}
	}
	if o.OnStall == nil {
		o.OnStall = func() {}
	}
	if o.HoldLine == nil {
		o.HoldLine = func(int64) (func(), error) { return func() {}, nil }
	}
	return &Conn{
		conn: conn, r: r, protocol: o.Protocol, key: o.Connection, generation: o.Generation, onProblem: o.OnProblem, pace: o.Pace, onStall: o.OnStall, hold: o.HoldLine,
		ended: make(chan struct{}), calls: map[string][]*call{}, serverIDs: map[string]json.RawMessage{},
	}
}

// Serve calls server to serve the client. The server MUST return when in ends or ctx
// is done. After that, Serve closes the connection and returns the server's error,
// which it also sends to the client's end.
func (c *Conn) Serve(ctx context.Context, server func(ctx context.Context, in io.Reader, out io.Writer) error) error {
	in, toServer := io.Pipe()
	read := make(chan struct{})
	go func() {
		defer close(read)
		c.read(toServer)
	}()
	err := server(context.WithValue(ctx, connKey{}, c), in, c)
	close(c.ended)
	in.CloseWithError(errEnded)
	last := frame{header: header{End: true}}
	if err != nil {
		last.Error = err.Error()
	}
	c.writing.Lock()
	if !c.isCut.Load() {
		_ = c.write(last) // a client that has left needs no last frame
	}
	c.writing.Unlock()
	c.conn.Close()
	<-read
	return err
}

// Hold stops the reading of lines. The client's end sends the unread ones to the next
// owner.
func (c *Conn) Hold() {
	c.isHolding.Store(true)
	_ = c.conn.SetReadDeadline(time.Unix(1, 0))
}

// Cut closes the connection. Further messages of the server are not sent, and the
// client's end attaches to the next owner.
func (c *Conn) Cut() {
	c.isHolding.Store(true)
	c.isCut.Store(true)
	c.conn.Close()
}

// Pending returns the number of requests without an answer.
func (c *Conn) Pending() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, list := range c.calls {
		n += len(list)
	}
	return n
}

var errEnded = errors.New("the connection has ended")

// read passes the client's lines on to the server.
func (c *Conn) read(to *io.PipeWriter) {
	for {
		if c.isHolding.Load() {
			return
		}
		release := func() {}
		f, err := readFrame(c.r, func(n int) (err error) {
			if n > uncountedLine {
				release, err = c.hold(int64(n) * lineCopies)
			}
			return err
		})
		if err != nil {
			release()
			if c.isHolding.Load() {
				return // the server must not take this for the end of the client's input
			}
			to.Close()
			return
		}
		if f.State {
			err = c.restore(to, f.message)
		} else {
			err = c.passLine(to, f)
		}
		release()
		if err != nil {
			return
		}
	}
}

// restore sends the server a line of the connection's state and waits for its answer,
// which is not sent to the client.
func (c *Conn) restore(to io.Writer, line []byte) error {
	var m message
	if err := json.Unmarshal(line, &m); err != nil {
		c.onProblem(fmt.Errorf("restore connection: %w", err))
		return nil
	}
	if id := idText(m.ID); id != "" {
		s := &call{message: m, isDelivered: true, restored: make(chan struct{})}
		c.add(id, s)
		if err := writeLine(to, line); err != nil {
			return err
		}
		select {
		case <-s.restored:
		case <-c.ended:
			return errEnded
		}
	} else if err := writeLine(to, line); err != nil {
		return err
	}
	for _, news := range c.protocol.restored(m) {
		if err := c.send(frame{message: news}); err != nil {
			return err
		}
	}
	return nil
}

// passLine sends a line of the client to the server, and reports it as done if no answer
// follows.
func (c *Conn) passLine(to io.Writer, f frame) error {
	done := frame{header: header{Done: []uint64{f.Line}}}
	line := f.message
	var m message
	if json.Unmarshal(line, &m) == nil {
		id := idText(m.ID)
		switch {
		case m.Method == "" && id != "":
			var ok bool
			if line, ok = c.restoreServerID(line, id); !ok {
				return c.send(done) // it answers an owner that has ended
			}
		case id != "":
			c.add(id, &call{message: m, number: f.Line, again: f.Again, skip: f.Seen})
			return writeLine(to, line)
		case m.Method != "":
			if n := c.withdrawCall(m); n != 0 {
				done.Done = append(done.Done, n)
			}
			done.Keep, done.kept = c.protocol.keep(m, nil)
		}
	}
	if err := writeLine(to, line); err != nil {
		return err
	}
	return c.send(done)
}

func (c *Conn) add(id string, r *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[id] = append(c.calls[id], r)
}

// take removes and returns the oldest call with an id, or returns nil.
func (c *Conn) take(id string) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.calls[id]
	if len(list) == 0 {
		return nil
	}
	if c.calls[id] = list[1:]; len(list) == 1 {
		delete(c.calls, id)
	}
	return list[0]
}

// withdrawCall returns the number of the request that a notification cancels, or 0. The
// client of that request does not wait for an answer, but may get one.
func (c *Conn) withdrawCall(m message) uint64 {
	id := idText(c.protocol.withdrawnID(m))
	if id == "" {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if list := c.calls[id]; len(list) > 0 {
		list[0].isWithdrawn = true
		return list[0].number
	}
	return 0
}

// restoreServerID replaces the id of a client's answer by the id of the server's request. It
// reports false if this server has no such request.
func (c *Conn) restoreServerID(line []byte, id string) ([]byte, bool) {
	c.mu.Lock()
	own, ok := c.serverIDs[id]
	delete(c.serverIDs, id)
	c.mu.Unlock()
	if !ok || c.generation == 0 {
		return line, ok
	}
	return withID(line, own), true
}

// Write sends messages of the server to the client, one per line.
func (c *Conn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.rest = append(c.rest, p...)
	for {
		line, rest, ok := bytes.Cut(c.rest, []byte{'\n'})
		if !ok {
			return len(p), nil
		}
		if err := c.emit(line); err != nil {
			return 0, err
		}
		c.rest = append([]byte(nil), rest...)
	}
}

// emit sends a message of the server. The caller must hold c.writing.
func (c *Conn) emit(line []byte) error {
	f := frame{message: line}
	var m message
	if json.Unmarshal(line, &m) != nil {
		return c.sendLocked(f)
	}
	id := idText(m.ID)
	switch {
	case m.Method == "" && id != "":
		r := c.take(id)
		switch {
		case r == nil:
		case r.restored != nil:
			if m.Error != nil {
				c.onProblem(fmt.Errorf("restore connection: %s failed: %s", r.Method, m.Error))
			}
			close(r.restored)
			return nil
		default:
			if !r.isWithdrawn {
				f.Done = []uint64{r.number}
			}
			if m.Error == nil {
				f.Keep, f.kept = c.protocol.keep(r.message, m.Result)
			}
		}
	case id != "":
		f.message = c.storeQuestion(line, m.ID, id)
	default:
		var skip bool
		if f.About, skip = c.aboutCall(m); skip {
			return nil
		}
	}
	return c.sendLocked(f)
}

// storeQuestion stores a request of the server, and returns it with the id for the client.
// Clients may still answer requests of an earlier owner, so from the second owner on
// the ids include the generation.
func (c *Conn) storeQuestion(line []byte, raw json.RawMessage, id string) []byte {
	if c.generation > 0 {
		own, err := json.Marshal(fmt.Sprintf("owner-%d-%s", c.generation, id))
		if err == nil {
			line, id = withID(line, own), idText(own)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serverIDs[id] = raw
	return line
}

// aboutCall returns the line that a notification belongs to, or 0, and whether the
// client has received the notification from an earlier owner.
func (c *Conn) aboutCall(m message) (number uint64, skip bool) {
	subject := c.protocol.about(m)
	if subject == "" {
		return 0, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var first *call // a subject has one request at a time; others are refused
	for _, list := range c.calls {
		for _, r := range list {
			if r.restored == nil && c.protocol.subject(r.message) == subject && (first == nil || r.number < first.number) {
				first = r
			}
		}
	}
	switch {
	case first == nil:
		return 0, false
	case first.skip > 0:
		first.skip--
		return 0, true
	default:
		return first.number, false
	}
}

func (c *Conn) send(f frame) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.sendLocked(f)
}

// sendLocked sends a frame. The caller must hold c.writing.
func (c *Conn) sendLocked(f frame) error {
	if c.isCut.Load() {
		return errEnded
	}
	f.Done = append(f.Done, c.takeRefused()...)
	return c.write(f)
}

// maxRefused bounds the refused lines that a frame reports, so that its header is
// shorter than maxHeaderBytes.
const maxRefused = 1000

func (c *Conn) takeRefused() []uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(c.refusedLines), maxRefused)
	list := c.refusedLines[:n:n]
	c.refusedLines = c.refusedLines[n:]
	return list
}

// refuseBefore removes each call whose line is before line number, unless the server
// has called NextDelivery for it. The server reads lines in order, so it did not
// accept the removed ones as requests, and its answers to them have no id. The caller
// must hold c.mu.
func (c *Conn) refuseBefore(number uint64) {
	for id, list := range c.calls {
		list = slices.DeleteFunc(list, func(r *call) bool {
			refused := !r.isDelivered && r.number < number
			if refused {
				c.refusedLines = append(c.refusedLines, r.number)
			}
			return refused
		})
		if c.calls[id] = list; len(list) == 0 {
			delete(c.calls, id)
		}
	}
}

// Delivery identifies a request of a client across owners.
type Delivery struct {
	// Key is equal each time the line is sent, and differs from the keys of all other
	// lines. It has visible ASCII characters without spaces.
	Key string
	// Again reports whether an earlier owner may have handled the line.
	Again bool
}

type connKey struct{}

// NextDelivery identifies the next request that has the given id and came over the
// link of ctx. It reports false if there is none. A server MUST call it for each
// request that it accepts, in the order of their lines.
func NextDelivery(ctx context.Context, id any) (Delivery, bool) {
	c, _ := ctx.Value(connKey{}).(*Conn)
	raw, err := json.Marshal(id)
	if c == nil || err != nil {
		return Delivery{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.calls[idText(raw)]
	i := slices.IndexFunc(list, func(r *call) bool { return !r.isDelivered })
	if i < 0 {
		return Delivery{}, false
	}
	r := list[i]
	r.isDelivered = true
	c.refuseBefore(r.number)
	return Delivery{Key: fmt.Sprintf("link-%s-%d", c.key, r.number), Again: r.again}, true
}

// IsRestoring reports whether the link of ctx is restoring its connection: the server is
// about to answer a line of the link, not of the client.
func IsRestoring(ctx context.Context) bool {
	c, _ := ctx.Value(connKey{}).(*Conn)
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, list := range c.calls {
		for _, r := range list {
			if r.restored != nil {
				return true
			}
		}
	}
	return false
}

// Forget removes a session of the Agent Client Protocol from the link of ctx, because
// another client has taken or closed the session. The next owner then does not resume
// it for the client of the link.
func Forget(ctx context.Context, session string) {
	if c, _ := ctx.Value(connKey{}).(*Conn); c != nil {
		_ = c.send(frame{header: header{Keep: sessionSlot(session)}}) // a client that has left has no next owner
	}
}

// IsLinked reports whether ctx belongs to a client that attaches to the next owner when
// this one ends.
func IsLinked(ctx context.Context) bool {
	_, ok := ctx.Value(connKey{}).(*Conn)
	return ok
}

// writeLine writes a line and its end with one Write.
func writeLine(to io.Writer, line []byte) error {
	_, err := to.Write(append(bytes.Clone(line), '\n'))
	return err
}

// idText returns the canonical form of an id: 1 and 1.0 are equal, and so are two
// escapes of a string. It returns "" for a value that cannot be the id of a request.
func idText(id json.RawMessage) string {
	var v any
	if json.Unmarshal(id, &v) != nil {
		return ""
	}
	switch v.(type) {
	case string, float64:
		text, err := json.Marshal(v)
		if err != nil {
			return ""
		}
		return string(text)
	default:
		return ""
	}
}

// withID returns a message with another id.
func withID(line []byte, id json.RawMessage) []byte {
	members := map[string]json.RawMessage{}
	if json.Unmarshal(line, &members) != nil {
		return line
	}
	members["id"] = id
	changed, err := json.Marshal(members)
	if err != nil {
		return line
	}
	return changed
}
