package jetstream

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
)

// Headers that the server adds to the answers of a direct get.
const (
	headerStream   = "Nats-Stream"
	headerSubject  = "Nats-Subject"
	headerSequence = "Nats-Sequence"
	headerPrevious = "Nats-Last-Sequence"
	headerPending  = "Nats-Num-Pending"
	headerStatus   = "Status"
	headerReason   = "Description"
	headerTime     = "Nats-Time-Stamp"
)

// batchMessages and batchBytes bound one answer to a batched direct get.
const (
	batchMessages = 1000
	batchBytes    = 4 << 20
)

// getRequest asks a stream for messages it holds. Seq and NextBySubject go
// together; the others stand alone.
type getRequest struct {
	Seq           uint64   `json:"seq,omitempty"`
	NextBySubject string   `json:"next_by_subj,omitempty"`
	LastBySubject string   `json:"last_by_subj,omitempty"`
	MultiLast     []string `json:"multi_last,omitempty"`
	Batch         int      `json:"batch,omitempty"`
	MaxBytes      int      `json:"max_bytes,omitempty"`
}

// stored is a message as the stream holds it.
type stored struct {
	seq     uint64
	subject string
	header  nats.Header
	data    []byte
	// removed is up to where volumes were removed, if its own was.
	removed uint64
}

// decode reads the event. One that cannot be read is damage: only this package
// writes to the stream.
func (s *Store) decode(m stored) (events.Event, error) {
	e, err := events.Decode(m.seq, events.Message{Subject: m.subject, Header: m.header, Body: m.data})
	if err != nil {
		return events.Event{}, s.damaged("%w", err)
	}
	return s.opened(e, nil)
}

func decodeStored(m *nats.Msg) (stored, error) {
	seq, err := strconv.ParseUint(first(m.Header, headerSequence), 10, 64)
	if err != nil || seq == 0 {
		return stored{}, fmt.Errorf("the server answered without a position: %q", first(m.Header, headerSequence))
	}
	return stored{seq: seq, subject: first(m.Header, headerSubject), header: m.Header, data: m.Data}, nil
}

func first(h nats.Header, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// getOne fetches a single message; events.ErrNotFound when there is none.
func (s *Store) getOne(ctx context.Context, stream string, r getRequest) (stored, error) {
	if err := s.answerable(stream, r); err != nil {
		return stored{}, err
	}
	m, err := s.lookUp(ctx, stream, r)
	for err == nil && s.unreadable(stream, m.seq) {
		switch {
		case r.NextBySubject != "":
			r.Seq = m.seq + 1
			m, err = s.lookUp(ctx, stream, r)
		case r.LastBySubject != "":
			m, err = s.lastReadable(ctx, stream, r.LastBySubject)
		default:
			err = events.ErrNotFound
		}
	}
	if r.LastBySubject != "" && errors.Is(err, events.ErrNotFound) {
		err = s.whole(ctx, stream, r.LastBySubject)
	}
	if err != nil {
		return stored{}, fmt.Errorf("get from stream %s: %w", stream, s.unless(stream, err))
	}
	return m, nil
}

// lookUp is getOne also where messages may be missing.
func (s *Store) lookUp(ctx context.Context, stream string, r getRequest) (_ stored, err error) {
	body, err := json.Marshal(r)
	if err != nil {
		return stored{}, err
	}
	ctx, asked := s.asking(ctx)
	defer func() { asked(&err) }()
	m, err := s.conn.RequestWithContext(ctx, "$JS.API.DIRECT.GET."+stream, body)
	if err != nil {
		return stored{}, err
	}
	if err := s.status(m); err != nil {
		return stored{}, err
	}
	return decodeStored(m)
}

// status is the error that an answer without a message stands for.
func (s *Store) status(m *nats.Msg) error {
	code := first(m.Header, headerStatus)
	switch code {
	case "":
		return nil
	case "404":
		return cmp.Or(s.starved(), events.ErrNotFound)
	case "503":
		return nats.ErrNoResponders
	default:
		return fmt.Errorf("the server answered %s %s", code, first(m.Header, headerReason))
	}
}

// getBatch fetches many messages and calls fn for each, in order of position.
// It returns how many more the server could have sent. No match is no error.
// fn must not keep m.data past its return without owning it: it does own it,
// each message has memory of its own. Requests by subject pass over lost positions.
func (s *Store) getBatch(ctx context.Context, stream string, r getRequest, fn func(m stored) error) (pending uint64, err error) {
	if !bySubject(r) || !s.hasUnreadable(stream) {
		return s.requestBatch(ctx, stream, r, fn)
	}
	for {
		var last uint64
		var hidden []string
		some := false
		pending, err := s.requestBatch(ctx, stream, r, func(m stored) error {
			last = m.seq
			if s.unreadable(stream, m.seq) {
				hidden = append(hidden, m.subject)
				return nil
			}
			some = true
			return fn(m)
		})
		switch {
		case err != nil || len(hidden) == 0:
			return pending, err
		case r.NextBySubject != "" && (some || pending == 0):
			return pending, nil
		case r.NextBySubject != "": // who asks takes a batch without messages for the end
			r.Seq = last + 1
			continue
		}
		for _, subject := range hidden {
			m, err := s.lastReadable(ctx, stream, subject)
			if err == nil {
				err = fn(m)
			}
			if err != nil && !errors.Is(err, events.ErrNotFound) {
				return 0, err
			}
		}
		return pending, nil
	}
}

// requestBatch is getBatch for all messages that match.
func (s *Store) requestBatch(ctx context.Context, stream string, r getRequest, fn func(m stored) error) (pending uint64, err error) {
	if err := s.answerable(stream, r); err != nil {
		return 0, err
	}
	body, err := json.Marshal(r)
	if err != nil {
		return 0, err
	}
	ctx, asked := s.heard(ctx)
	defer func() { asked(&err) }()
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("get from stream %s: %w", stream, err)
	}
	inbox := s.conn.NewInbox()
	// A channel of our own: the one that comes with a subscription takes half a
	// megabyte. It holds all that a batch can be, and its end.
	replies := make(chan *nats.Msg, max(r.Batch, 1)+1)
	sub, err := s.conn.ChanSubscribe(inbox, replies)
	if err != nil {
		return 0, fmt.Errorf("get from stream %s: %w", stream, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only when the connection is gone
	if err := s.conn.PublishRequest("$JS.API.DIRECT.GET."+stream, inbox, body); err != nil {
		return 0, fmt.Errorf("get from stream %s: %w", stream, err)
	}
	var last uint64
	for {
		m, err := s.nextReply(ctx, replies)
		if err != nil {
			return 0, fmt.Errorf("get from stream %s: %w", stream, err)
		}
		switch first(m.Header, headerStatus) {
		case "":
		case "204":
			// The end of the batch says what its last message was.
			if end := first(m.Header, headerPrevious); end != strconv.FormatUint(last, 10) {
				return 0, fmt.Errorf("get from stream %s: the answer ends at %s, but %d was the last received", stream, end, last)
			}
			return strconv.ParseUint(first(m.Header, headerPending), 10, 64)
		default:
			if err := s.status(m); !errors.Is(err, events.ErrNotFound) {
				return 0, fmt.Errorf("get from stream %s: %w", stream, err)
			}
			if len(r.MultiLast) > 0 && first(m.Header, headerReason) == cannotRead {
				return 0, errHidden
			}
			return 0, nil
		}
		got, err := decodeStored(m)
		if err != nil {
			return 0, fmt.Errorf("get from stream %s: %w", stream, err)
		}
		last = got.seq
		if err := fn(got); err != nil {
			return 0, err
		}
	}
}

func (s *Store) nextReply(ctx context.Context, replies <-chan *nats.Msg) (*nats.Msg, error) {
	// Mostly the next message is here already, and costs no timer.
	select {
	case m := <-replies:
		return m, nil
	default:
	}
	late := time.NewTimer(s.opts.TryWait)
	defer late.Stop()
	select {
	case m := <-replies:
		return m, nil
	case <-late.C:
		if s.conn.IsClosed() {
			return nil, nats.ErrConnectionClosed
		}
		return nil, fmt.Errorf("no answer within %s: %w", s.opts.TryWait, context.DeadlineExceeded)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// nextAtLeader fetches the first message on a subject of a volume from a position
// on, from the copy of the stream that takes the writes. It returns events.ErrNotFound
// when there is none.
func (s *Store) nextAtLeader(ctx context.Context, v volume, subject string, from uint64) (_ uint64, _ nats.Header, err error) {
	ctx, asked := s.asking(ctx)
	defer func() { asked(&err) }()
	body, err := json.Marshal(getRequest{Seq: from, NextBySubject: subject})
	if err != nil {
		return 0, nil, err
	}
	m, err := s.conn.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+v.stream(), body)
	if err != nil {
		return 0, nil, err
	}
	var answer struct {
		Error   *natsjs.APIError `json:"error"`
		Message *struct {
			Seq    uint64 `json:"seq"`
			Header []byte `json:"hdrs"`
		} `json:"message"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return 0, nil, fmt.Errorf("decode the server's answer: %w", err)
	}
	switch {
	case answer.Error != nil && answer.Error.ErrorCode == natsjs.JSErrCodeMessageNotFound:
		return 0, nil, cmp.Or(s.starved(), events.ErrNotFound)
	case answer.Error != nil:
		return 0, nil, answer.Error
	case answer.Message == nil:
		return 0, nil, errors.New("the server answered without a message")
	}
	header, err := nats.DecodeHeadersMsg(answer.Message.Header)
	if err != nil {
		return 0, nil, fmt.Errorf("decode headers of message %d: %w", answer.Message.Seq, err)
	}
	return answer.Message.Seq, header, nil
}
