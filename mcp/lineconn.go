package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/internal/lines"
	"daybook/internal/link"
	"daybook/internal/web"
	"daybook/internal/web/access"
	"daybook/ledger"
)

// lineConn is a connection over a pair of streams, with one message per line. Unlike the
// SDK's own, it answers a line that it cannot decode with a JSON-RPC error and
// continues. Calls in progress can still be answered after the client has closed its
// end.
type lineConn struct {
	ctx        context.Context //nolint:containedctx // the connection's, which can be that of a link
	lines      chan []byte     // closed at the end of in
	ended      chan struct{}   // closed by end
	once       sync.Once
	eofTimeout time.Duration
	// count counts a message as a request of its tenant. Nil counts nothing.
	count func() error

	writing  sync.Mutex
	out      io.Writer
	writeErr error // the first error

	// calls holds the calls that are read and unanswered.
	calls lineCalls

	mu      sync.Mutex
	readErr error // why lines was closed, unless io.EOF
}

// errEnded is returned by Read after the server has ended the connection.
var errEnded = errors.New("the connection was ended by the server")

// newLineConn returns a connection and starts reading in. It is a transport for this one
// connection.
func newLineConn(ctx context.Context, in io.Reader, out io.Writer, grace time.Duration) *lineConn {
	c := &lineConn{ctx: ctx, lines: make(chan []byte), ended: make(chan struct{}), out: out, eofTimeout: grace}
	c.calls.byID, c.calls.capacityTimeout = map[jsonrpc.ID][]*lineCall{}, capacityTimeout
	go c.readLines(in)
	return c
}

// Connect returns the connection itself.
func (c *lineConn) Connect(context.Context) (sdk.Connection, error) { return c, nil }

// SessionID is empty: the streams carry one session.
func (c *lineConn) SessionID() string { return "" }

// end stops reading immediately.
func (c *lineConn) end() { c.once.Do(func() { close(c.ended) }) }

// Close stops reading. It does not close the streams.
func (c *lineConn) Close() error {
	c.end()
	return nil
}

// readLines sends every line that is not blank to c.lines. For a line over the limit it
// sends nil.
func (c *lineConn) readLines(in io.Reader) {
	defer close(c.lines)
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		line, err := lines.Read(r, maxMessageBytes)
		if len(bytes.TrimSpace(line)) > 0 || errors.Is(err, lines.ErrTooLong) {
			select {
			case c.lines <- line:
			case <-c.ended:
				return
			}
		}
		if err != nil && !errors.Is(err, lines.ErrTooLong) {
			if !errors.Is(err, io.EOF) {
				c.mu.Lock()
				c.readErr = err
				c.mu.Unlock()
			}
			return
		}
	}
}

// Read returns the next message.
func (c *lineConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.ended:
			return nil, errEnded
		case line, ok := <-c.lines:
			if !ok {
				return nil, c.awaitAnswers()
			}
			msg, problem := decodeLine(line)
			if problem != nil {
				if _, err := c.limit(ctx, nil); err != nil {
					return nil, err
				}
				if err := c.answerUnreadable(problem); err != nil {
					return nil, err
				}
				continue
			}
			answered, err := c.limit(ctx, msg)
			if err != nil {
				return nil, err
			}
			if answered {
				continue
			}
			req, ok := msg.(*jsonrpc.Request)
			if !ok || !req.IsCall() {
				return msg, nil
			}
			key, err := c.calls.add(ctx, c.ended, req.ID, len(line))
			switch {
			case errors.Is(err, errEnded), err != nil && ctx.Err() != nil:
				return nil, err
			case errors.Is(err, errSameID): // the client would take an answer with the id as that to the other call
				err = c.answerUnreadable(&jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: err.Error()})
			case err != nil: // the client waits for an answer
				err = c.refuse(req.ID, &jsonrpc.Error{Code: codeLimited, Message: err.Error()})
			default:
				return c.accept(req, key), nil
			}
			if err != nil {
				return nil, err
			}
		}
	}
}

// accept adds the key of its account and its link.Delivery to a call.
func (c *lineConn) accept(req *jsonrpc.Request, key string) *jsonrpc.Request {
	h := http.Header{}
	if key != "" {
		h.Set(accountHeader, key)
	}
	if d, linked := link.NextDelivery(c.ctx, req.ID.Raw()); linked {
		setDelivery(h, d)
	}
	req.Extra = &sdk.RequestExtra{Header: h}
	return req
}

// limit counts a message against the rate limit of its tenant. It answers a call over
// the limit with an error and returns answered true. Other messages have no id to answer,
// so it waits until they are within the limit.
func (c *lineConn) limit(ctx context.Context, msg jsonrpc.Message) (answered bool, err error) {
	if c.count == nil {
		return false, nil
	}
	for {
		over, limited := errors.AsType[*access.LimitError](c.count())
		if !limited {
			return false, nil
		}
		if req, ok := msg.(*jsonrpc.Request); ok && req.IsCall() {
			return true, c.refuse(req.ID, limitProblem(over))
		}
		timer := time.NewTimer(over.RetryAfter)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false, ctx.Err()
		case <-c.ended:
			timer.Stop()
			return false, errEnded
		}
	}
}

// awaitAnswers waits for the unanswered calls, and returns why the input ended. It stops
// waiting if no answer is written for eofTimeout.
func (c *lineConn) awaitAnswers() error {
	c.mu.Lock()
	err := c.readErr
	c.mu.Unlock()
	for c.awaitAnswer() {
	}
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	return io.EOF
}

// awaitAnswer waits for the next answer. It returns false if all calls are answered, no
// answer is written for eofTimeout, or the server ends the connection.
func (c *lineConn) awaitAnswer() bool {
	next := c.calls.nextAnswer()
	if next == nil {
		return false
	}
	timer := time.NewTimer(c.eofTimeout)
	defer timer.Stop()
	select {
	case <-next:
		return true
	case <-timer.C:
	case <-c.ended:
	}
	return false
}

// Write sends a message as one line.
func (c *lineConn) Write(_ context.Context, msg jsonrpc.Message) error {
	if res, ok := msg.(*jsonrpc.Response); ok {
		c.calls.markAnswering(res.ID)
		defer c.calls.remove(res.ID)
	}
	data, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return fmt.Errorf("encode a message: %w", err)
	}
	return c.writeLine(data)
}

// refuse answers a call that does not reach the SDK.
func (c *lineConn) refuse(id jsonrpc.ID, problem *jsonrpc.Error) error {
	data, err := jsonrpc.EncodeMessage(&jsonrpc.Response{ID: id, Error: problem})
	if err != nil {
		return fmt.Errorf("encode a message: %w", err)
	}
	return c.writeLine(data)
}

func (c *lineConn) writeLine(data []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if _, err := c.out.Write(append(data, '\n')); err != nil {
		err = fmt.Errorf("write: %w", err)
		if c.writeErr == nil {
			c.writeErr = err
		}
		return err
	}
	return nil
}

// failure returns the first error of writing, or nil.
func (c *lineConn) failure() error {
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.writeErr
}

// decodeLine decodes a line as a message, or returns the error to answer with.
func decodeLine(line []byte) (jsonrpc.Message, *jsonrpc.Error) {
	line = bytes.TrimSpace(line)
	switch {
	case len(line) == 0:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: ledger.ErrRequestTooLarge.Message}
	case line[0] == '[':
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "batches are not supported; send one message a line"}
	case web.TooManyValues(line):
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: web.ErrTooManyValues.Message}
	}
	msg, err := jsonrpc.DecodeMessage(rewriteMessage(line))
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "the line is not a JSON-RPC message, or nested far too deep; send one message a line"}
	}
	return msg, nil
}

// answerUnreadable answers a line with an error without an id: the id of the line is
// unknown, or another call has the same one.
func (c *lineConn) answerUnreadable(problem *jsonrpc.Error) error {
	data, err := encode(object{{"jsonrpc", "2.0"}, {"id", nil}, {"error", object{{"code", problem.Code}, {"message", problem.Message}}}})
	if err != nil {
		return err
	}
	return c.writeLine(data)
}
