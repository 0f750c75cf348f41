package toolserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// jsonBody is the body of a response that is one message. It is read completely, so that
// an answer that is too long, truncated or not JSON fails only its call. An error from
// Read would end the connection, which other calls share.
type jsonBody struct {
	io.ReadCloser
	size    int64 // of the body; negative if not known
	ctx     context.Context
	answer  *answer
	router  *answerRouter
	message *bytes.Reader
}

func (b *jsonBody) Read(p []byte) (int, error) {
	if b.message == nil {
		message, err := b.read()
		if err != nil {
			message = b.answer.refusal(err) // also if the caller cancelled the call
		}
		b.message = bytes.NewReader(message)
	}
	return b.message.Read(p)
}

func (b *jsonBody) read() ([]byte, error) {
	message, err := readMessage(b.ReadCloser, b.size, func() error { return b.answer.reserve(b.ctx, sizeOf(b.size)) })
	if err != nil {
		return nil, err
	}
	messages := b.router.divertAll(b.ctx, message, b.answer)
	if len(messages) == 1 {
		if m, err := jsonrpc.DecodeMessage(messages[0]); err == nil {
			if _, ok := m.(*jsonrpc.Response); ok {
				return messages[0], nil
			}
		}
	}
	return nil, errNoMessage
}

var errNoMessage = errors.New("the server's answer is not a JSON-RPC message about this call")

// sizeOf returns the number of bytes to reserve for a body of the given length. For an
// unknown or too large length it returns maxMessageBytes.
func sizeOf(length int64) int64 {
	if length < 0 || length > maxMessageBytes {
		return maxMessageBytes
	}
	return length
}

// readMessage reads a body to its end. It calls reserve before it holds more than a
// small message.
func readMessage(r io.Reader, size int64, reserve func() error) ([]byte, error) {
	if size > maxMessageBytes {
		return nil, errTooLong
	}
	var b bytes.Buffer
	n, err := io.CopyN(&b, r, smallMessage+1)
	switch {
	case errors.Is(err, io.EOF):
		return b.Bytes(), nil
	case err != nil:
		return nil, fmt.Errorf("the server's answer broke off: %w", err)
	}
	if err := reserve(); err != nil {
		return nil, err
	}
	if size > 0 {
		b.Grow(int(size - n))
	}
	_, err = io.CopyN(&b, r, maxMessageBytes-n+1)
	switch {
	case errors.Is(err, io.EOF):
		return b.Bytes(), nil
	case err != nil:
		return nil, fmt.Errorf("the server's answer broke off: %w", err)
	}
	return nil, errTooLong
}

// eventBody is a stream of server-sent events. It diverts answers to calls.
type eventBody struct {
	io.ReadCloser
	reader *bufio.Reader
	router *answerRouter
	ctx    context.Context // of the request
	answer *answer         // of the only call of the stream; nil if calls share the stream
	resume bool            // the SDK asks for the rest if the stream breaks off
	next   bytes.Buffer    // the next bytes for the SDK
	err    error
}

func newEventBody(ctx context.Context, body io.ReadCloser, b *answerRouter, a *answer) *eventBody {
	return &eventBody{ReadCloser: body, reader: bufio.NewReader(body), router: b, ctx: ctx, answer: a}
}

func (b *eventBody) Read(p []byte) (int, error) {
	for b.next.Len() == 0 {
		if b.err != nil {
			return 0, b.err
		}
		if b.err = b.event(); b.refuses() {
			b.write(b.answer.refusal(b.err)) // fails only the call
			b.err = io.EOF
		}
	}
	if b.next.Len() == 0 {
		return 0, b.err
	}
	return b.next.Read(p)
}

// refuses reports whether b.err fails the call. A stream that broke off does not fail the
// call if the SDK can ask for the rest.
func (b *eventBody) refuses() bool {
	switch {
	case b.err == nil, b.answer == nil, b.ctx.Err() != nil, errors.Is(b.err, io.EOF):
		return false
	case errors.As(b.err, new(connectionError)):
		return !b.resume
	}
	return true
}

// connectionError is an error of the connection of a stream.
type connectionError struct{ error }

// Unwrap returns the cause.
func (e connectionError) Unwrap() error { return e.error }

// event reads one event and writes it to next. It drops comments, lines without a colon,
// and fields other than data that exceed the length of a small message.
func (b *eventBody) event() error {
	var fields, data bytes.Buffer
	read := 0
	reserve := func() error {
		if b.answer == nil {
			return nil // a stream of many calls has only one event in memory
		}
		return b.answer.reserve(b.ctx, maxMessageBytes)
	}
	tooLong := false
	for {
		line, err := readLine(b.reader, maxMessageBytes-read, read, reserve)
		if errors.Is(err, errTooLong) && b.answer == nil {
			// The event is dropped, because other calls share the stream.
			tooLong, read = true, 0
			data.Reset()
			if err := skipLine(b.reader); err != nil {
				return err
			}
			continue
		}
		read += len(line)
		if err != nil && (!errors.Is(err, io.EOF) || len(line) == 0) {
			if data.Len() > 0 && errors.Is(err, io.EOF) {
				b.emit(&fields, data.Bytes())
			}
			return err
		}
		line = bytes.TrimRight(line, "\r\n")
		name, value, ok := bytes.Cut(line, []byte(":"))
		switch value = bytes.TrimPrefix(value, []byte(" ")); {
		case len(line) == 0 && tooLong:
			return nil
		case len(line) == 0:
			b.emit(&fields, data.Bytes())
			return nil
		case tooLong:
			read = 0
		case !ok: // ignored; a comment starts with a colon
		case string(name) == "data":
			if data.Len() > 0 {
				data.WriteByte('\n')
			}
			data.Write(value)
		case len(name) > 0 && fields.Len()+len(line) < smallMessage:
			b.resume = b.resume || string(name) == "id" && len(value) > 0
			fields.Write(line)
			fields.WriteByte('\n')
		}
	}
}

// emit writes an event for the SDK.
func (b *eventBody) emit(fields *bytes.Buffer, data []byte) {
	b.next.Write(fields.Bytes())
	if len(data) > 0 {
		messages := b.router.divertAll(b.ctx, data, b.answer)
		if b.answer != nil && (len(messages) == 1 && !isMessage(messages[0]) || len(messages) == 0 && !json.Valid(data)) {
			messages = [][]byte{b.answer.refusal(errNoMessage)}
		}
		for _, message := range messages {
			b.write(message)
		}
		if len(messages) == 0 {
			b.next.WriteByte('\n')
		}
		return
	}
	if fields.Len() > 0 {
		b.next.WriteByte('\n')
	}
}

func (b *eventBody) write(data []byte) {
	for line := range bytes.Lines(data) {
		b.next.WriteString("data: ")
		b.next.Write(bytes.TrimRight(line, "\r\n"))
		b.next.WriteByte('\n')
	}
	b.next.WriteByte('\n')
}

// readLine reads a line with its end, of at most most bytes. read is the number of bytes
// of the same message before the line. readLine calls reserve before both together exceed
// the length of a small message.
func readLine(r *bufio.Reader, most, read int, reserve func() error) ([]byte, error) {
	var line []byte
	for {
		piece, err := r.ReadSlice('\n')
		if len(line)+len(piece) > most {
			return nil, errTooLong
		}
		if read+len(line)+len(piece) > smallMessage {
			if err := reserve(); err != nil {
				return nil, err
			}
		}
		line = append(line, piece...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			if err != nil && !errors.Is(err, io.EOF) {
				err = connectionError{err}
			}
			return line, err
		}
	}
}

// lineReader is the output of a child. It diverts answers to calls.
type lineReader struct {
	io.ReadCloser
	reader *bufio.Reader
	router *answerRouter
	life   context.Context
	onLong func() // called for each line that is too long, which is dropped
	// onStray is called for each line that is no message, which is dropped. An error ends
	// the connection.
	onStray func(line []byte) error
	stray   strayLines
	rest    []byte
	err     error
}

func (l *lineReader) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		if l.err != nil {
			return 0, l.err
		}
		var line []byte
		line, l.err = readLine(l.reader, maxMessageBytes, 0, func() error { return nil })
		if errors.Is(l.err, errTooLong) {
			l.err = skipLine(l.reader)
			l.onLong()
			continue
		}
		if l.stray.has(line) {
			if err := l.onStray(line); err != nil {
				l.err = err
			}
			continue
		}
		if len(line) <= 1 || len(line) > smallMessage && !json.Valid(line) {
			l.rest = line // part of a message
			continue
		}
		l.rest = bytes.Join(l.router.divertAll(l.life, line, nil), []byte("\n"))
		if len(l.rest) > 0 && l.err == nil {
			l.rest = append(l.rest, '\n')
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// skipLine reads the rest of a line and drops it.
func skipLine(r *bufio.Reader) error {
	for {
		if _, err := r.ReadSlice('\n'); !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

// codeRejected is the code of the SDK's error for a request that failed and left the
// connection usable.
const codeRejected = -32005

// divertResponse wraps the body of a response so that answers to calls are diverted. An
// error fails only the request.
func (w *httpTransport) divertResponse(r *http.Request, resp *http.Response, a *answer) error {
	media := mediaType(resp)
	if why := w.refuses(resp, media); a != nil && why != nil {
		// The SDK would end the connection, which other calls share.
		if w.sse {
			return &jsonrpc.Error{Code: codeRejected, Message: why.Error()}
		}
		_ = resp.Body.Close()
		message := a.refusal(why)
		resp.StatusCode, resp.ContentLength = http.StatusOK, int64(len(message))
		resp.Header.Set("Content-Type", "application/json")
		resp.Body = io.NopCloser(bytes.NewReader(message))
		return nil
	}
	switch {
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		resp.Body = &boundedBody{ReadCloser: resp.Body, left: smallMessage}
	case media == "text/event-stream":
		resp.Body = newEventBody(r.Context(), resp.Body, w.router, a)
	case a != nil && !w.sse:
		resp.Body = &jsonBody{ReadCloser: resp.Body, size: resp.ContentLength, ctx: r.Context(), answer: a, router: w.router}
	default:
		resp.Body = &boundedBody{ReadCloser: resp.Body, left: maxMessageBytes}
	}
	return nil
}

// refuses returns why a response fails only its call, or nil. It returns nil for the other
// client errors (4xx): they mean that the session has ended or that the credentials are
// wrong, which concerns all calls.
func (w *httpTransport) refuses(resp *http.Response, media string) error {
	switch code := resp.StatusCode; {
	case code >= http.StatusInternalServerError, code == http.StatusRequestEntityTooLarge, code == http.StatusTooManyRequests:
		return fmt.Errorf("the server answered %d %s", code, http.StatusText(code))
	case code >= 200 && code <= 299 && !w.sse && media != "application/json" && media != "text/event-stream":
		return fmt.Errorf("the server answered %d with the content type %q, not with JSON", code, truncate(media, 100))
	}
	return nil
}

func mediaType(resp *http.Response) string {
	media, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(media))
}
