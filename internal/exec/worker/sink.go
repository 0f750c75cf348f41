package worker

import (
	"bytes"
	"sync"
	"time"
	"unicode/utf8"
)

// How much output may wait for the pipe before the script has to wait.
const (
	sinkChunk  = 512 << 10 // bytes
	sinkChunks = 4
)

// lineSink turns console messages into frames of lines. All lines that are added while a
// frame is being written form the next one. So the first line is written without delay, and
// many lines take few large frames.
type lineSink struct {
	write func(payload []byte) error
	// writeArtifact writes an artifact; nil to drop artifacts.
	writeArtifact func(h artifactHeader, content []byte) error

	mu      sync.Mutex // guards the fields below
	changed *sync.Cond
	pending [][]byte
	closed  bool
	err     error
	writing bool // a chunk is being written
	done    chan struct{}
}

// newLineSink returns a lineSink and starts its goroutine. The caller MUST call close.
func newLineSink(write func([]byte) error) *lineSink {
	s := &lineSink{write: write, done: make(chan struct{})}
	s.changed = sync.NewCond(&s.mu)
	go s.run()
	return s
}

// WriteMessage adds one console message, which may have several lines. It blocks while too
// much output waits for the pipe.
func (s *lineSink) WriteMessage(level uint8, at time.Time, text []byte) error {
	micros := min(max(at.UnixMicro(), earliestLine), latestLine)
	if int(level) >= len(levels) {
		level = 0
	}
	for {
		line, rest, more := bytes.Cut(text, []byte{'\n'})
		for len(line) > maxLineText {
			n := maxLineText
			for !utf8.RuneStart(line[n]) {
				n--
			}
			if err := s.add(level, micros, true, line[:n]); err != nil {
				return err
			}
			line = line[n:]
		}
		if err := s.add(level, micros, false, line); err != nil {
			return err
		}
		if !more {
			return nil
		}
		text = rest
	}
}

// WriteArtifact writes an artifact after the lines that were added before it. It blocks until
// the artifact is in the pipe.
func (s *lineSink) WriteArtifact(name, mime string, at time.Time, content []byte) error {
	if s.writeArtifact == nil {
		return nil
	}
	if err := s.flush(); err != nil {
		return err
	}
	micros := min(max(at.UnixMicro(), earliestLine), latestLine)
	return s.writeArtifact(artifactHeader{Name: name, MIME: mime, AtMicros: micros, Size: len(content)}, content)
}

func (s *lineSink) add(level uint8, at int64, continued bool, text []byte) error {
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

// flush blocks until all added lines are in the pipe.
func (s *lineSink) flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for (len(s.pending) > 0 || s.writing) && s.err == nil {
		s.changed.Wait()
	}
	return s.err
}

// close writes the pending lines and blocks until they are in the pipe.
func (s *lineSink) close() error {
	s.mu.Lock()
	s.closed = true
	s.changed.Broadcast()
	s.mu.Unlock()
	<-s.done
	return s.err
}
