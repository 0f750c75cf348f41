package link

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"daybook/internal/lines"
)

// errOwnerEnded is returned by Run if several owners in a row ended without answering
// anything.
var errOwnerEnded = errors.New("the process that owns the data directory ended several times while it handled the same messages")

const (
	// maxLosses bounds the owners in a row that end without any progress.
	maxLosses = 5
	// minLife is the lifetime below which an owner may have been unable to serve the
	// client.
	minLife = time.Second
	// maxHeldBytes bounds the bytes of held lines. Above it the next line is not read.
	maxHeldBytes = 256 << 20
)

// Attach connects to the current owner, and waits for one if necessary. generation is
// the number of owners before. An error ends Run.
type Attach func(ctx context.Context, generation int) (net.Conn, error)

// Run passes the lines of one client to owners and their messages back, until in ends,
// ctx is done, or the owner refuses the connection. A line longer than maxLine bytes is
// replaced by maxLine+1 blanks, which the owner refuses. Run does not close in and out.
// A Read of in may still be running when Run returns.
func Run(ctx context.Context, attach Attach, in io.Reader, out io.Writer, maxLine int) error {
	c := &client{out: out, lines: make(chan []byte), stop: make(chan struct{})}
	defer close(c.stop)
	go c.readLines(in, maxLine)
	losses := 0
	for generation := 0; ; generation++ {
		conn, err := attach(ctx, generation)
		if ctx.Err() != nil {
			return nil // the caller ends Run
		}
		if err != nil {
			return err
		}
		begin := time.Now()
		progress, ended, err := c.serveWith(ctx, conn)
		switch {
		case ctx.Err() != nil:
			return nil // the caller ends Run
		case ended || err != nil:
			return err
		case c.isDone():
			return nil
		case progress, !c.hasHeldLines() && time.Since(begin) > minLife:
			losses = 0
		}
		if losses++; losses > maxLosses {
			return errOwnerEnded
		}
	}
}

// client is the state of Run.
type client struct {
	out   io.Writer
	lines chan []byte // from the client, without line ends; closed at the end of the input
	stop  chan struct{}

	mu         sync.Mutex
	next       uint64      // number of the newest line
	held       []*heldLine // lines that are not done, in order
	bytes      int         // total size of held
	freed      chan struct{}
	state      []slot // in the order in which the slots were first kept
	inputEnded bool   // the client has ended its input
}

// heldLine is a line that may have to be sent again.
type heldLine struct {
	number       uint64
	text         []byte
	sent         bool
	seenMessages int
}

// slot is a line that restores a part of the connection's state.
type slot struct {
	name string
	line []byte
}

func (c *client) readLines(in io.Reader, maxLine int) {
	defer close(c.lines)
	from := bufio.NewReaderSize(in, 64<<10)
	for {
		line, err := lines.Read(from, maxLine+2)
		if errors.Is(err, lines.ErrTooLong) {
			line, err = bytes.Repeat([]byte(" "), maxLine+1), nil
		} else {
			line = bytes.TrimRight(line, "\r\n")
		}
		if len(line) > 0 {
			select {
			case c.lines <- line:
			case <-c.stop:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// hasHeldLines reports whether a line of the client is not done.
func (c *client) hasHeldLines() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.held) > 0
}

// isDone reports whether the client has ended its input and all lines are done.
func (c *client) isDone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inputEnded && len(c.held) == 0
}

// serveWith serves the client with one owner. progress is true if the owner reported a
// line as done or sent a message about one. ended is true if no further owner is
// tried; err is then the error of the owner, the failure of a write to the client, or
// nil.
func (c *client) serveWith(ctx context.Context, conn net.Conn) (progress, ended bool, err error) {
	defer conn.Close()
	release := context.AfterFunc(ctx, func() { conn.Close() })
	defer release()
	closed := make(chan struct{})
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		c.send(conn, closed)
	}()
	defer func() {
		conn.Close()
		close(closed)
		<-sent
	}()
	r := bufio.NewReaderSize(conn, 64<<10)
	for {
		f, err := readFrame(r, func(int) error { return nil })
		if err != nil {
			return progress, false, nil // the next owner continues, for any error
		}
		progress = progress || len(f.Done) > 0 || f.About != 0
		if f.End {
			if f.Error != "" {
				err = errors.New(f.Error)
			}
			return progress, true, err
		}
		if len(f.message) > 0 {
			if _, err := c.out.Write(append(f.message, '\n')); err != nil {
				return progress, true, fmt.Errorf("write to the client: %w", err)
			}
		}
		c.applyHeader(f)
	}
}

// applyHeader applies the header of a frame from the owner.
func (c *client) applyHeader(f frame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.held {
		if f.About != 0 && h.number == f.About {
			h.seenMessages++
		}
	}
	if len(f.Done) > 0 {
		c.held = slices.DeleteFunc(c.held, func(h *heldLine) bool {
			done := slices.Contains(f.Done, h.number)
			if done {
				c.bytes -= len(h.text)
			}
			return done
		})
		if c.freed != nil {
			close(c.freed)
			c.freed = nil
		}
	}
	if f.Keep == "" {
		return
	}
	i := slices.IndexFunc(c.state, func(s slot) bool { return s.name == f.Keep })
	switch {
	case len(f.kept) == 0 && i >= 0:
		c.state = slices.Delete(c.state, i, i+1)
	case len(f.kept) == 0:
	case i >= 0:
		c.state[i].line = f.kept
	default:
		c.state = append(c.state, slot{f.Keep, f.kept})
	}
}

// send sends the state and the held lines, and then new lines as they come. It returns
// when the connection or the input of the client has ended.
func (c *client) send(conn net.Conn, closed <-chan struct{}) {
	for _, f := range c.initialFrames() {
		if writeFrame(conn, f) != nil {
			return
		}
	}
	for {
		h := c.nextLine(closed)
		if h == nil {
			break
		}
		if writeFrame(conn, frame{header: header{Line: h.number}, message: h.text}) != nil {
			return
		}
	}
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // answers still come
	}
}

// initialFrames returns the frames that a new owner gets first.
func (c *client) initialFrames() (list []frame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.state {
		list = append(list, frame{header: header{State: true}, message: s.line})
	}
	for _, h := range c.held {
		list = append(list, frame{header: header{Line: h.number, Again: h.sent, Seen: h.seenMessages}, message: h.text})
		h.sent = true
	}
	return list
}

// nextLine waits for the next line of the client and holds it. It returns nil if the
// input or the connection has ended.
func (c *client) nextLine(closed <-chan struct{}) *heldLine {
	for {
		c.mu.Lock()
		var freed chan struct{}
		if c.bytes > maxHeldBytes {
			if c.freed == nil {
				c.freed = make(chan struct{})
			}
			freed = c.freed
		}
		c.mu.Unlock()
		if freed == nil {
			break
		}
		select {
		case <-freed:
		case <-closed:
			return nil
		}
	}
	select {
	case line, ok := <-c.lines:
		c.mu.Lock()
		defer c.mu.Unlock()
		if !ok {
			c.inputEnded = true
			return nil
		}
		c.next++
		h := &heldLine{number: c.next, text: line, sent: true}
		c.held = append(c.held, h)
		c.bytes += len(line)
		return h
	case <-closed:
		return nil
	}
}
