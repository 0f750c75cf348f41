package jet

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

// Headers that the server adds to answers of a direct get.
const (
	HeaderStream   = "Nats-Stream"
	headerSubject  = "Nats-Subject"
	HeaderSequence = "Nats-Sequence"
	headerPrevious = "Nats-Last-Sequence"
	headerPending  = "Nats-Num-Pending"
	headerStatus   = "Status"
	headerReason   = "Description"
	HeaderTime     = "Nats-Time-Stamp"
)

// BatchMessages and BatchBytes bound one answer of GetBatch, in messages and bytes.
const (
	BatchMessages = 1000
	BatchBytes    = 4 << 20
)

// Request selects messages of a stream. Seq and NextBySubject may be combined; the
// other selectors stand alone.
type Request struct {
	Seq           uint64   `json:"seq,omitempty"`
	NextBySubject string   `json:"next_by_subj,omitempty"`
	LastBySubject string   `json:"last_by_subj,omitempty"`
	MultiLast     []string `json:"multi_last,omitempty"`
	Batch         int      `json:"batch,omitempty"`
	MaxBytes      int      `json:"max_bytes,omitempty"`
}

// DecodeMessage decodes an answer to a direct get.
func DecodeMessage(m *nats.Msg) (events.Stored, error) {
	seq, err := strconv.ParseUint(DeliveryValue(m.Header, HeaderSequence), 10, 64)
	if err != nil || seq == 0 {
		return events.Stored{}, fmt.Errorf("the server answered without a position: %q", DeliveryValue(m.Header, HeaderSequence))
	}
	return events.Stored{Seq: seq, Subject: DeliveryValue(m.Header, headerSubject), Header: m.Header, Body: m.Data}, nil
}

// DeliveryValue returns the value of a header that the server adds when it delivers or
// republishes a message, or "". The server adds it after the stored headers, among which
// may be one of the same name that no proof covers.
func DeliveryValue(h nats.Header, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[len(v)-1]
	}
	return ""
}

// Status returns the status of an answer that is no message, with its description, or
// "". A status has no payload and each event has one, so that a stored header cannot make
// an event look like a status.
func Status(m *nats.Msg) (code, description string) {
	if len(m.Data) > 0 {
		return "", ""
	}
	return DeliveryValue(m.Header, headerStatus), DeliveryValue(m.Header, headerReason)
}

// Get returns one message of a stream, or events.ErrNotFound.
func (c *Client) Get(ctx context.Context, stream string, r Request) (_ events.Stored, err error) {
	body, err := json.Marshal(r)
	if err != nil {
		return events.Stored{}, err
	}
	ctx, asked := c.BoundRequest(ctx)
	defer func() { asked(&err) }()
	m, err := c.Conn.RequestWithContext(ctx, "$JS.API.DIRECT.GET."+stream, body)
	if err != nil {
		return events.Stored{}, err
	}
	if err := c.status(m); err != nil {
		return events.Stored{}, err
	}
	return DecodeMessage(m)
}

// status returns the error for an answer without a message.
func (c *Client) status(m *nats.Msg) error {
	code, description := Status(m)
	switch code {
	case "":
		return nil
	case "404":
		return cmp.Or(c.Starved(), events.ErrNotFound)
	case "503":
		return nats.ErrNoResponders
	default:
		return fmt.Errorf("the server answered %s %s", code, description)
	}
}

// GetBatch requests many messages and calls fn for each, in order of position. It
// returns how many more the server has. No match is no error. It returns an error of fn
// unchanged. fn MAY keep m: each message has memory of its own.
func (c *Client) GetBatch(ctx context.Context, stream string, r Request, fn func(m events.Stored) error) (pending uint64, err error) {
	body, err := json.Marshal(r)
	if err != nil {
		return 0, err
	}
	ctx, asked := c.boundRead(ctx)
	defer func() { asked(&err) }()
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("get from stream %s: %w", stream, err)
	}
	inbox := c.Conn.NewInbox()
	// The channel that comes with a subscription takes 512 KiB. This one holds a complete
	// batch and its end.
	replies := make(chan *nats.Msg, max(r.Batch, 1)+1)
	sub, err := c.Conn.ChanSubscribe(inbox, replies)
	if err != nil {
		return 0, fmt.Errorf("get from stream %s: %w", stream, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only if the connection is closed
	if err := c.Conn.PublishRequest("$JS.API.DIRECT.GET."+stream, inbox, body); err != nil {
		return 0, fmt.Errorf("get from stream %s: %w", stream, err)
	}
	var last uint64
	for {
		m, err := c.nextReply(ctx, replies)
		if err != nil {
			return 0, fmt.Errorf("get from stream %s: %w", stream, err)
		}
		switch code, description := Status(m); code {
		case "":
		case "204":
			// The end of the batch names its last message.
			if end := DeliveryValue(m.Header, headerPrevious); end != strconv.FormatUint(last, 10) {
				return 0, fmt.Errorf("get from stream %s: the answer ends at %s, but %d was the last received", stream, end, last)
			}
			return strconv.ParseUint(DeliveryValue(m.Header, headerPending), 10, 64)
		default:
			if err := c.status(m); !errors.Is(err, events.ErrNotFound) {
				return 0, fmt.Errorf("get from stream %s: %w", stream, err)
			}
			if len(r.MultiLast) > 0 && description == cannotRead {
				return 0, ErrHidden
			}
			return 0, nil
		}
		got, err := DecodeMessage(m)
		if err != nil {
			return 0, fmt.Errorf("get from stream %s: %w", stream, err)
		}
		last = got.Seq
		if err := fn(got); err != nil {
			return 0, err
		}
	}
}

func (c *Client) nextReply(ctx context.Context, replies <-chan *nats.Msg) (*nats.Msg, error) {
	// The next message has usually arrived; no timer is needed then.
	select {
	case m := <-replies:
		return m, nil
	default:
	}
	late := time.NewTimer(c.Options.TryWait)
	defer late.Stop()
	select {
	case m := <-replies:
		return m, nil
	case <-late.C:
		if c.Conn.IsClosed() {
			return nil, nats.ErrConnectionClosed
		}
		return nil, fmt.Errorf("no answer within %s: %w", c.Options.TryWait, context.DeadlineExceeded)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// NextAtLeader returns position and headers of the first message on a subject of a
// stream at position from or later, or events.ErrNotFound. It asks the replica that
// takes the writes.
func (c *Client) NextAtLeader(ctx context.Context, stream, subject string, from uint64) (_ uint64, _ nats.Header, err error) {
	ctx, asked := c.BoundRequest(ctx)
	defer func() { asked(&err) }()
	body, err := json.Marshal(Request{Seq: from, NextBySubject: subject})
	if err != nil {
		return 0, nil, err
	}
	m, err := c.Conn.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+stream, body)
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
		return 0, nil, cmp.Or(c.Starved(), events.ErrNotFound)
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
