package mcp

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// maxSentStreams bounds the resumable streams of a session; the oldest are dropped. Each
	// request has a stream, and the protocol does not say when it can be dropped.
	maxSentStreams = 64
	// maxSentBytes bounds the stored messages of all sessions. The session with the most
	// bytes loses the messages of its oldest stream first.
	maxSentBytes = 10 << 20
	// sentOverhead is about the memory of a message besides its bytes.
	sentOverhead = 64
)

// sentEvents stores the messages sent to sessions, so that a client whose connection
// broke can resume a stream. It implements sdk.EventStore.
//
// It is safe for concurrent use.
type sentEvents struct {
	onEnd func(session string)

	mu       sync.Mutex
	size     int                     // guarded by mu
	sessions map[string]*sentSession // guarded by mu
}

// sentSession holds the streams of a session.
type sentSession struct {
	size    int
	streams map[string]*sentStream
	order   []string // ids of the streams, oldest first, without the standalone stream ""
}

// sentStream holds the messages of a stream from index first on.
type sentStream struct {
	first, size int
	messages    [][]byte
}

var _ sdk.EventStore = (*sentEvents)(nil)

// newSentEvents returns an empty store. onEnd is called after a session has ended.
func newSentEvents(onEnd func(session string)) *sentEvents {
	return &sentEvents{onEnd: onEnd, sessions: map[string]*sentSession{}}
}

// Open implements sdk.EventStore.
func (e *sentEvents) Open(_ context.Context, session, stream string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.sessions[session]
	if s == nil {
		if stream != "" {
			return nil // the session has ended
		}
		s = &sentSession{streams: map[string]*sentStream{}}
		e.sessions[session] = s
	}
	if s.streams[stream] != nil {
		return nil
	}
	s.streams[stream] = &sentStream{}
	if stream == "" {
		return nil
	}
	if len(s.order) >= maxSentStreams {
		e.forget(s, s.order[0])
		s.order = slices.Delete(s.order, 0, 1)
	}
	s.order = append(s.order, stream)
	return nil
}

// forget drops a stream. The caller must hold mu.
func (e *sentEvents) forget(s *sentSession, stream string) {
	n := s.streams[stream].size
	s.size -= n
	e.size -= n
	delete(s.streams, stream)
}

// Append implements sdk.EventStore. It returns sdk.ErrEventsPurged for a message of a
// dropped stream.
func (e *sentEvents) Append(_ context.Context, session, stream string, data []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.sessions[session]
	if s == nil || s.streams[stream] == nil {
		return fmt.Errorf("keep a message of stream %q: %w", stream, sdk.ErrEventsPurged)
	}
	one, n := s.streams[stream], len(data)+sentOverhead
	one.messages = append(one.messages, data)
	one.size += n
	s.size += n
	e.size += n
	for e.size > maxSentBytes {
		e.shrink()
	}
	return nil
}

// shrink drops the oldest messages of the session with the most bytes: those of its
// oldest stream with messages. The caller must hold mu.
func (e *sentEvents) shrink() {
	var most *sentSession
	for _, s := range e.sessions {
		if most == nil || s.size > most.size {
			most = s
		}
	}
	for _, id := range append([]string{""}, most.order...) {
		if one := most.streams[id]; len(one.messages) > 0 {
			most.size -= one.size
			e.size -= one.size
			one.first += len(one.messages)
			one.messages, one.size = nil, 0
			return
		}
	}
}

// After implements sdk.EventStore.
func (e *sentEvents) After(_ context.Context, session, stream string, index int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		list, err := e.after(session, stream, index)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, data := range list {
			if !yield(data, nil) {
				return
			}
		}
	}
}

func (e *sentEvents) after(session, stream string, index int) ([][]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.sessions[session]
	if s == nil || s.streams[stream] == nil {
		return nil, fmt.Errorf("resume stream %q: %w", stream, sdk.ErrEventsPurged)
	}
	one := s.streams[stream]
	if index < 0 { // the client has no message of the stream yet: its indexes start here
		one.first = 0
	}
	start := index + 1 - one.first
	switch {
	case start < 0:
		return nil, fmt.Errorf("resume stream %q after message %d: %w", stream, index, sdk.ErrEventsPurged)
	case start >= len(one.messages):
		return nil, nil
	default:
		return slices.Clone(one.messages[start:]), nil
	}
}

// SessionClosed implements sdk.EventStore.
func (e *sentEvents) SessionClosed(_ context.Context, session string) error {
	e.mu.Lock()
	if s := e.sessions[session]; s != nil {
		e.size -= s.size
		delete(e.sessions, session)
	}
	e.mu.Unlock()
	e.onEnd(session)
	return nil
}
