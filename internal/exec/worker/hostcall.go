package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"
)

// Bounds of host calls. The prelude keeps them, and the parent kills a worker
// that does not.
const (
	// MaxCalls is how many calls one run makes at most, maxCallsInFlight how many
	// at a time: the prelude lets further ones wait.
	MaxCalls         = 1000
	maxCallsInFlight = 16
	// MaxArguments is the most JSON one call carries, in bytes.
	MaxArguments = 1 << 20
	// MaxAnswer is the most text one answer carries, in bytes.
	MaxAnswer = 16 << 20
	// maxCallName bounds the names of servers and tools, in bytes. What a script
	// makes up never leaves the worker: only names of the task do.
	maxCallName = 256
)

// Host carries out what a script calls. Its methods are called one after another.
type Host interface {
	// Call begins a call and must not wait for its answer; the receiver owns the
	// arguments. Calls of a run are numbered from 1, and are of a server and a
	// tool that the task names. An error ends the run.
	Call(ctx context.Context, number int, server, tool string, arguments []byte) error
	// Next is called while calls are pending, and blocks until one is answered or
	// until the script's clock reaches due, which is zero when the script waits
	// for no timer. ctx ends when the run is to end.
	//
	// What the script does next depends on nothing else: an Answer that says
	// a timer is due promises that no later one is from before due. An answer to
	// a call must not be from before the answer before it, nor from due or later:
	// then the timer is first.
	Next(ctx context.Context, due time.Time) (Answer, error)
}

// Answer is a Host's word to a waiting script.
type Answer struct {
	// Number is the call that is answered; 0 says that the timer is due.
	Number int
	// OK says that Text is a value as JSON; otherwise it is an error's message.
	// It is valid UTF-8, at most MaxAnswer bytes.
	OK   bool
	Text []byte
	// At is the script's time of the answer.
	At time.Time
}

// callHeader precedes the arguments of a call.
type callHeader struct {
	Number int    `json:"number"`
	Server string `json:"server"`
	Tool   string `json:"tool"`
	Size   int    `json:"size"`
}

// waitMessage says that the script cannot go on without its host.
type waitMessage struct {
	Timed     bool  `json:"timed"`
	DueMicros int64 `json:"due_micros"`
}

// answerHeader precedes the text of an answer.
type answerHeader struct {
	Number   int   `json:"number"`
	OK       bool  `json:"ok"`
	AtMicros int64 `json:"at_micros"`
	Size     int   `json:"size"`
}

// call is one that a worker made.
type call struct {
	callHeader
	arguments []byte
}

// calls checks what a worker says about host calls, as conversation does about
// everything else.
type calls struct {
	servers map[string][]string

	made     int
	inFlight map[int]bool
	coming   *call // whose arguments follow
	waiting  bool  // for an answer or a timer
	due      time.Time
}

func (c *calls) takeCall(payload []byte) (*call, error) {
	var next call
	if err := decodeMessage(payload, &next.callHeader); err != nil {
		return nil, err
	}
	switch {
	case next.Number != c.made+1:
		return nil, fmt.Errorf("call %d follows call %d", next.Number, c.made)
	case next.Number > MaxCalls:
		return nil, fmt.Errorf("more than %d calls", MaxCalls)
	case len(c.inFlight) >= maxCallsInFlight:
		return nil, fmt.Errorf("more than %d calls at a time", maxCallsInFlight)
	case next.Size < 1 || next.Size > MaxArguments:
		return nil, fmt.Errorf("arguments of %d bytes", next.Size)
	case !c.offered(next.Server, next.Tool):
		return nil, errors.New("a call of what the task does not offer")
	}
	c.made++
	if c.inFlight == nil {
		c.inFlight = map[int]bool{}
	}
	c.inFlight[next.Number] = true
	next.arguments = make([]byte, 0, min(next.Size, maxPayload))
	c.coming = &next
	return nil, nil
}

func (c *calls) offered(server, tool string) bool {
	for _, t := range c.servers[server] {
		if t == tool {
			return true
		}
	}
	return false
}

// takeArguments returns the call once it is whole.
func (c *calls) takeArguments(payload []byte) (*call, error) {
	if len(payload) == 0 || len(c.coming.arguments)+len(payload) > c.coming.Size {
		return nil, errors.New("arguments of another size than announced")
	}
	c.coming.arguments = append(c.coming.arguments, payload...)
	if len(c.coming.arguments) < c.coming.Size {
		return nil, nil
	}
	whole := c.coming
	c.coming = nil
	if !utf8.Valid(whole.arguments) {
		return nil, errors.New("arguments that are not UTF-8")
	}
	return whole, nil
}

func (c *calls) takeWait(payload []byte) error {
	var m waitMessage
	if err := decodeMessage(payload, &m); err != nil {
		return err
	}
	switch {
	case len(c.inFlight) == 0:
		return errors.New("a wait for no call")
	case m.Timed && (m.DueMicros < earliestLine || m.DueMicros > latestDue), !m.Timed && m.DueMicros != 0:
		return fmt.Errorf("a wait until %d", m.DueMicros)
	}
	c.waiting, c.due = true, time.Time{}
	if m.Timed {
		c.due = time.UnixMicro(m.DueMicros).UTC()
	}
	return nil
}

// latestDue is the latest timer that anybody can wait for, in microseconds: the
// longest delay after the latest time.
var latestDue = latestLine + (1<<31)*1000

// answer checks what the host says; an error is the host's fault.
func (c *calls) answer(a Answer) error {
	switch {
	case a.Number == 0 && c.due.IsZero():
		return errors.New("the host let a timer fire that nobody waits for")
	case a.Number == 0:
	case !c.inFlight[a.Number]:
		return fmt.Errorf("the host answered call %d, which is not pending", a.Number)
	case len(a.Text) > MaxAnswer:
		return fmt.Errorf("the host answered with %d bytes, at most %d are allowed", len(a.Text), MaxAnswer)
	case a.At.UnixMicro() < earliestLine || a.At.UnixMicro() > latestLine:
		return fmt.Errorf("the host answered at %s", a.At)
	}
	delete(c.inFlight, a.Number)
	c.waiting = false
	return nil
}

// carry lets the host deal with what the worker just said.
func (p *process) carry(ctx context.Context, c *frameChecker, host Host) error {
	if made := c.call; made != nil {
		c.call = nil
		return host.Call(ctx, made.Number, made.Server, made.Tool, made.arguments)
	}
	if !c.calls.waiting || c.ended {
		return nil
	}
	// A worker that dies meanwhile says nothing, and nobody is reading.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-p.dead:
			cancel()
		case <-over:
		}
	}()
	a, err := host.Next(ctx, c.calls.due)
	switch {
	case ctx.Err() != nil:
		return nil // whoever ended it knows why, and the worker says how it went
	case err != nil:
		return err
	}
	if err := c.calls.answer(a); err != nil {
		return err
	}
	return p.answer(a)
}

// answer tells the worker. A worker that is gone is no error: its end is seen by
// who reads from it.
func (p *process) answer(a Answer) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	h := answerHeader{Number: a.Number, OK: a.OK, AtMicros: a.At.UnixMicro(), Size: len(a.Text)}
	if a.Number == 0 {
		h = answerHeader{}
		a.Text = nil
	}
	_ = together(p.to, func(w io.Writer) error {
		if err := writeMessage(w, frameAnswer, h); err != nil {
			return err
		}
		return writeBody(w, a.Text)
	})
	return nil
}
