package worker

import (
	"bytes"
	"sync"
	"time"
	"unicode/utf8"
)

// A script may be this far ahead of the pipe before it has to wait.
const (
	sinkChunk  = 512 << 10
	sinkChunks = 4
)

// lineSink turns console messages into frames of lines. Whatever has gathered
// while a frame was being written makes the next one: the first line leaves at
// once, and a flood travels in large frames.
type lineSink struct {
	write func(payload []byte) error

	mu      sync.Mutex // guards what follows
	changed *sync.Cond
	pending [][]byte
	closed  bool
	err     error
	writing bool // a chunk is on its way
	done    chan struct{}
}

// newLineSink starts the goroutine that writes; close ends it.
func newLineSink(write func([]byte) error) *lineSink {
	s := &lineSink{write: write, done: make(chan struct{})}
	s.changed = sync.NewCond(&s.mu)
	go s.run()
	return s
}

// WriteMessage takes one console message, which may be several lines.
func (s *lineSink) WriteMessage(level uint8, at time.Time, text []byte) error {
	micros := min(max(at.UnixMicro(), earliestLine), latestLine)
	if int(level) >= len(levelNames) {
		level = 0
	}
	for {
		line, rest, more := bytes.Cut(text, []byte{'\n'})
		for len(line) > MaxLineText {
			n := MaxLineText
			for !utf8.RuneStart(line[n]) {
				n--
			}
			if err := s.add(Level(level), micros, true, line[:n]); err != nil {
				return err
			}
			line = line[n:]
		}
		if err := s.add(Level(level), micros, false, line); err != nil {
			return err
		}
		if !more {
			return nil
		}
		text = rest
	}
}

func (s *lineSink) add(level Level, at int64, continued bool, text []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.pending) >= sinkChunks && s.err == nil {
		s.changed.Wait()
	}
	if s.err != nil {
		return s.err
	}
	last := len(s.pending) - 1
	if last < 0 || len(s.pending[last])+lineHeader+len(text) > sinkChunk {
		s.pending = append(s.pending, nil)
		last++
	}
	s.pending[last] = appendLine(s.pending[last], level, at, continued, text)
	s.changed.Broadcast()
	return nil
}

func (s *lineSink) run() {
	defer close(s.done)
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		for len(s.pending) == 0 && !s.closed {
			s.changed.Wait()
		}
		if len(s.pending) == 0 || s.err != nil {
			return
		}
		chunk := s.pending[0]
		s.pending = s.pending[1:]
		s.writing = true
		s.mu.Unlock()
		err := s.write(chunk)
		s.mu.Lock()
		s.writing = false
		if err != nil {
			s.err = err
		}
		s.changed.Broadcast()
		if err != nil {
			return
		}
	}
}

// flush returns once all that was added is in the pipe.
func (s *lineSink) flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for (len(s.pending) > 0 || s.writing) && s.err == nil {
		s.changed.Wait()
	}
	return s.err
}

// close writes what is pending and returns once it is in the pipe.
func (s *lineSink) close() error {
	s.mu.Lock()
	s.closed = true
	s.changed.Broadcast()
	s.mu.Unlock()
	<-s.done
	return s.err
}
