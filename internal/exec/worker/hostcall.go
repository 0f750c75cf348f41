package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"daybook/runner"
)

// Limits of host calls. The prelude enforces them, and the parent kills a worker that
// exceeds them.
const (
	// maxCalls is the maximum number of host calls of one run, maxCallsInFlight the
	// maximum at a time: the prelude delays further ones.
	maxCalls         = 1000
	maxCallsInFlight = 16
	// maxArguments is the maximum size of the JSON arguments of one call, in bytes.
	maxArguments = 1 << 20
	// maxAnswer is the maximum size of the text of one answer, in bytes.
	maxAnswer = 16 << 20
	// maxCallName is the maximum length of the name of a tool server or a tool, in bytes.
	// Only names in runner.Task.Servers leave the worker, never others that a script uses.
	maxCallName = 256
)

// callHeader precedes the arguments of a call.
type callHeader struct {
	Number int    `json:"number"`
	Server string `json:"server"`
	Tool   string `json:"tool"`
	Size   int    `json:"size"`
}

// waitMessage reports that the script waits for an answer of the host or for a timer.
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

// call is a call that a worker made.
type call struct {
	callHeader
	arguments []byte
}

// calls checks the frames of host calls for a frameChecker.
type calls struct {
	servers map[string][]string

	made      int
	inFlight  map[int]bool
	receiving *call // whose arguments are being received
	isWaiting bool  // the script waits for an answer or a timer
	due       time.Time
}

func (c *calls) takeCall(payload []byte) (*call, error) {
	var next call
	if err := decodeMessage(payload, &next.callHeader); err != nil {
		return nil, err
	}
	switch {
	case next.Number != c.made+1:
		return nil, fmt.Errorf("call %d follows call %d", next.Number, c.made)
	case next.Number > maxCalls:
		return nil, fmt.Errorf("more than %d calls", maxCalls)
	case len(c.inFlight) >= maxCallsInFlight:
		return nil, fmt.Errorf("more than %d calls at a time", maxCallsInFlight)
	case next.Size < 1 || next.Size > maxArguments:
		return nil, fmt.Errorf("arguments of %d bytes", next.Size)
	case !c.offered(next.Server, next.Tool):
		return nil, errors.New("a call of a tool that the task does not offer")
	}
	c.made++
	if c.inFlight == nil {
		c.inFlight = map[int]bool{}
	}
	c.inFlight[next.Number] = true
	next.arguments = make([]byte, 0, min(next.Size, maxPayload))
	c.receiving = &next
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

// takeArguments adds a piece of the arguments. It returns the call if it is complete.
func (c *calls) takeArguments(payload []byte) (*call, error) {
	if len(payload) == 0 || len(c.receiving.arguments)+len(payload) > c.receiving.Size {
		return nil, errors.New("arguments of another size than announced")
	}
	c.receiving.arguments = append(c.receiving.arguments, payload...)
	if len(c.receiving.arguments) < c.receiving.Size {
		return nil, nil
	}
	whole := c.receiving
	c.receiving = nil
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
		return errors.New("a wait without a pending call")
	case m.Timed && (m.DueMicros < earliestLine || m.DueMicros > latestDue), !m.Timed && m.DueMicros != 0:
		return fmt.Errorf("a wait until %d", m.DueMicros)
	}
	c.isWaiting, c.due = true, time.Time{}
	if m.Timed {
		c.due = time.UnixMicro(m.DueMicros).UTC()
	}
	return nil
}

// latestDue is the latest time that a script can wait for, in microseconds since 1970: the
// longest delay of a timer after the latest time.
var latestDue = latestLine + (1<<31)*1000

// takeAnswer checks an answer of the host. An error is a fault of the host.
func (c *calls) takeAnswer(a runner.HostAnswer) error {
	switch {
	case a.Number == 0 && c.due.IsZero():
		return errors.New("the host reported a timer that the script does not wait for")
	case a.Number == 0:
	case !c.inFlight[a.Number]:
		return fmt.Errorf("the host answered call %d, which is not pending", a.Number)
	case len(a.Text) > maxAnswer:
		return fmt.Errorf("the host answered with %d bytes, at most %d are allowed", len(a.Text), maxAnswer)
	case a.At.UnixMicro() < earliestLine || a.At.UnixMicro() > latestLine:
		return fmt.Errorf("the host answered at %s", a.At)
	}
	delete(c.inFlight, a.Number)
	c.isWaiting = false
	return nil
}

// serveHostCalls passes a complete call to the host, or lets the host answer a worker that
// waits.
func (p *process) serveHostCalls(ctx context.Context, c *frameChecker, host runner.Host) error {
	if made := c.call; made != nil {
		c.call = nil
		return host.Call(ctx, made.Number, made.Server, made.Tool, made.arguments)
	}
	if !c.calls.isWaiting || c.hasEnd {
		return nil
	}
	// Nothing reads from the worker during the wait, so its death must end the wait.
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
		return nil // perform knows the cause, and the worker reports the end
	case err != nil:
		return err
	}
	if err := c.calls.takeAnswer(a); err != nil {
		return err
	}
	return p.sendAnswer(a)
}

// sendAnswer sends an answer to the worker. It ignores write errors: if the worker is dead,
// perform notices it when it reads.
func (p *process) sendAnswer(a runner.HostAnswer) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	h := answerHeader{Number: a.Number, OK: a.OK, AtMicros: a.At.UnixMicro(), Size: len(a.Text)}
	if a.Number == 0 {
		h = answerHeader{}
		a.Text = nil
	}
	_ = writeBuffered(p.to, func(w io.Writer) error {
		if err := writeMessage(w, frameAnswer, h); err != nil {
			return err
		}
		return writeBody(w, a.Text)
	})
	return nil
}
