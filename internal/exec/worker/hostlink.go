package worker

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"daybook/internal/exec/v8"
)

// errStopped is returned to a waiting script when its run is stopped.
var errStopped = errors.New("the run was stopped")

// hostLink is the worker's end of host calls: it sends the calls of the script to the
// parent and waits for the answers.
type hostLink struct {
	server  *server
	sink    *lineSink
	answers chan v8.Answer // filled by the goroutine that reads frames
	stop    chan struct{}  // closed by halt
	halted  sync.Once
}

// newLink returns a link, to which answers are delivered until dropLink is called.
func (s *server) newLink(sink *lineSink) *hostLink {
	l := &hostLink{server: s, sink: sink, answers: make(chan v8.Answer, 1), stop: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.link = l
	if s.stop {
		l.halt()
	}
	return l
}

func (s *server) dropLink() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.link = nil
}

// halt ends the present wait and all later ones.
func (l *hostLink) halt() { l.halted.Do(func() { close(l.stop) }) }

// Call sends a call to the parent after the output that precedes it.
func (l *hostLink) Call(number int, server, tool string, arguments []byte) error {
	if err := l.sink.flush(); err != nil {
		return err
	}
	l.server.writing.Lock()
	defer l.server.writing.Unlock()
	return writeBuffered(l.server.out, func(w io.Writer) error {
		h := callHeader{Number: number, Server: server, Tool: tool, Size: len(arguments)}
		if err := writeMessage(w, frameCall, h); err != nil {
			return err
		}
		return writeBody(w, arguments)
	})
}

// Await reports to the parent that the script waits, and blocks until the answer arrives
// or the run is stopped.
func (l *hostLink) Await(due time.Time) (v8.Answer, error) {
	if err := l.sink.flush(); err != nil {
		return v8.Answer{}, err
	}
	m := waitMessage{}
	if !due.IsZero() {
		m = waitMessage{Timed: true, DueMicros: min(due.UnixMicro(), latestDue)}
	}
	if err := l.server.message(frameWait, m); err != nil {
		return v8.Answer{}, err
	}
	select {
	case a := <-l.answers:
		return a, nil
	case <-l.stop:
		return v8.Answer{}, errStopped
	}
}

// readAnswer reads an answer and delivers it to the run. It drops an answer that the script
// does not wait for: the run was stopped before it arrived.
func (s *server) readAnswer(payload []byte) error {
	var h answerHeader
	if err := decodeMessage(payload, &h); err != nil {
		return err
	}
	if h.Size < 0 || h.Size > maxAnswer {
		return fmt.Errorf("an answer of %d bytes", h.Size)
	}
	text := make([]byte, 0, h.Size)
	for len(text) < h.Size {
		t, data, err := s.in.next()
		if err != nil || t != frameData || len(text)+len(data) > h.Size {
			return errors.New("the body of an answer does not match its header")
		}
		text = append(text, data...)
	}
	s.mu.Lock()
	link := s.link
	s.mu.Unlock()
	if link != nil {
		select {
		case link.answers <- v8.Answer{Number: h.Number, OK: h.OK, Text: text, At: time.UnixMicro(h.AtMicros).UTC()}:
		default:
		}
	}
	return nil
}
