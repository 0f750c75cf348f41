package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"daybook/internal/lines"
)

// Relay carries the messages of one client between a pair of streams and the
// server of the day. When that one goes, the next is told what the client had
// told the first, questions still open are asked again, and the calls whose
// fate nobody knows are answered with an error that says so. Nothing else tells
// the client that there was a change.
//
// Serve is called for one server after the other, not at the same time. The
// caller closes the Relay in the end; a Read of the client's stream may then
// still be waiting, as with Server.ServeStdio.
type Relay struct {
	lines chan []byte   // from the client, with their ends; closed at its end
	ended chan struct{} // closed by Close
	once  sync.Once

	writing sync.Mutex // of out
	out     io.Writer

	held []byte // a line that no server has taken yet; passRequests's
	left bool   // the client has ended; Serve's

	talk *dialogue
}

// NewRelay starts reading in.
func NewRelay(in io.Reader, out io.Writer) *Relay {
	r := &Relay{lines: make(chan []byte), ended: make(chan struct{}), out: out, talk: newDialogue()}
	go r.readLines(in)
	return r
}

// Close ends the reading. The streams belong to whoever opened them.
func (r *Relay) Close() { r.once.Do(func() { close(r.ended) }) }

// Left tells whether the client has ended the conversation.
func (r *Relay) Left() bool { return r.left }

func (r *Relay) readLines(in io.Reader) {
	defer close(r.lines)
	from := bufio.NewReaderSize(in, 64<<10)
	for {
		// One byte more than the server takes, so that it is the one to complain.
		line, err := lines.Read(from, maxMessageBytes+2)
		if errors.Is(err, lines.ErrTooLong) {
			line, err = bytes.Repeat([]byte(" "), maxMessageBytes+1), nil
		}
		if len(line) > 0 {
			select {
			case r.lines <- bytes.TrimRight(line, "\r\n"):
			case <-r.ended:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

var errServerGone = errors.New("the server ended the conversation")

// Serve connects the client to a server until serve returns, which it has to do
// when in ends. It returns what serve does, or why the conversation could not be
// carried on with this server.
func (r *Relay) Serve(ctx context.Context, serve func(ctx context.Context, in io.Reader, out io.Writer) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	served := make(chan error, 1)
	gone := make(chan struct{})
	go func() {
		err := serve(ctx, fromClient, toClient)
		close(gone)
		fromClient.CloseWithError(errServerGone)
		_ = toClient.Close()
		served <- err
	}()
	r.talk.begin()
	answered := make(chan error, 1)
	go func() {
		err := r.passAnswers(fromServer)
		if err != nil {
			cancel() // nobody reads the answers any more
		}
		fromServer.CloseWithError(err)
		answered <- err
	}()
	passed := r.passRequests(toServer, gone)
	_ = toServer.Close()
	if passed != nil && !errors.Is(passed, errServerGone) {
		cancel()
	}
	err := <-served
	if broken := <-answered; broken != nil {
		r.left = true
		return broken
	}
	if passed != nil && !errors.Is(passed, errServerGone) {
		return passed
	}
	return err
}

// passRequests brings a server up to date and then passes on what the client
// sends, to the end of either.
func (r *Relay) passRequests(to io.Writer, gone <-chan struct{}) error {
	if err := r.resume(to, gone); err != nil {
		return err
	}
	for {
		if r.held == nil {
			select {
			case line, ok := <-r.lines:
				if !ok {
					r.left = true
					return nil
				}
				r.held = line
			case <-gone:
				return errServerGone
			}
		}
		pass, note := r.talk.fromClient(r.held)
		if pass {
			if err := writeLine(to, r.held); err != nil {
				r.talk.forget(note)
				return errServerGone
			}
		}
		r.held = nil
	}
}

// resume tells a server what was said before its time.
func (r *Relay) resume(to io.Writer, gone <-chan struct{}) error {
	handshake, answer := r.talk.handshake()
	if handshake == nil {
		return r.repeat(to)
	}
	if err := writeLine(to, handshake); err != nil {
		return errServerGone
	}
	select {
	case problem := <-answer:
		if problem != nil {
			return fmt.Errorf("carry on an MCP client's conversation: the next server refuses its handshake: %s", problem)
		}
	case <-gone:
		return errServerGone
	}
	for _, line := range r.talk.settings() {
		if err := writeLine(to, line); err != nil {
			return errServerGone
		}
	}
	return r.repeat(to)
}

// repeat asks again what can be asked twice, and answers the rest.
func (r *Relay) repeat(to io.Writer) error {
	again, answers := r.talk.unanswered()
	for _, line := range answers {
		if err := r.tell(line); err != nil {
			return err
		}
	}
	for _, line := range again {
		if err := writeLine(to, line); err != nil {
			return errServerGone
		}
	}
	return nil
}

// passAnswers passes on what a server sends, to its end. An error is one of
// writing to the client.
func (r *Relay) passAnswers(from io.Reader) error {
	lines := bufio.NewReaderSize(from, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break // a line without its end is no message
		}
		line = bytes.TrimRight(line, "\r\n")
		if !r.talk.fromServer(line) {
			continue
		}
		if err := r.tell(line); err != nil {
			return err
		}
	}
	return nil //nolint:nilerr // the end of the server is none of the client's
}

func (r *Relay) tell(line []byte) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	if err := writeLine(r.out, line); err != nil {
		return fmt.Errorf("write to the MCP client: %w", err)
	}
	return nil
}

// writeLine writes a line and its end at once.
func writeLine(to io.Writer, line []byte) error {
	_, err := to.Write(append(bytes.Clone(line), '\n'))
	return err
}
