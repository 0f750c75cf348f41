package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
)

// array writes the elements of a JSON array as they are read, so that the whole
// response is never in memory.
type array struct {
	w       http.ResponseWriter
	ctx     context.Context
	buf     bytes.Buffer // encoded and not written yet
	started bool
	head    bool // the request is HEAD: the response has no body
	// prefix and suffix enclose the elements in the response.
	prefix, suffix string
}

// arrayPiece is the number of encoded bytes from which elements are written.
const arrayPiece = 16 << 10

// errPageComplete stops reading after the last element of a page.
var errPageComplete = errors.New("the page is complete")

// errHead stops reading for a HEAD request.
var errHead = errors.New("the request is HEAD")

// startArray prepares a response that is a JSON array. It writes nothing.
func startArray(w http.ResponseWriter, r *http.Request) *array {
	return &array{w: w, ctx: r.Context(), head: r.Method == http.MethodHead, prefix: "[", suffix: "]\n"}
}

// begin writes the header and the prefix, once.
func (l *array) begin() error {
	if l.started {
		return nil
	}
	l.started = true
	l.w.Header().Set("Content-Type", "application/json")
	l.w.WriteHeader(http.StatusOK)
	if l.head {
		return errHead
	}
	l.buf.WriteString(l.prefix)
	return nil
}

// add encodes an element, and writes the buffer once it holds arrayPiece bytes.
func (l *array) add(v any) error {
	if l.started {
		l.buf.WriteByte(',')
	} else if err := l.begin(); err != nil {
		return err
	}
	if err := encoder(&l.buf).Encode(v); err != nil {
		return fmt.Errorf("encode the response: %w", err)
	}
	l.buf.Truncate(l.buf.Len() - 1) // the line end that the encoder adds
	if l.buf.Len() < arrayPiece {
		return nil
	}
	if err := l.flush(); err != nil {
		return err
	}
	return continueReading(l.ctx)
}

func (l *array) flush() error {
	_, err := l.w.Write(l.buf.Bytes())
	if l.buf.Cap() > maxKeptBuffer {
		l.buf = bytes.Buffer{}
	}
	l.buf.Reset()
	return err
}

// endArray completes a response after the last element, or fails it with err. An error
// before the first element becomes an error response. A later error cuts the connection,
// because a regular end would look like a complete response.
func (a *api) endArray(ctx context.Context, l *array, err error) {
	if err == nil {
		if err = l.begin(); err == nil {
			l.buf.WriteString(l.suffix)
			err = l.flush()
		}
	}
	switch {
	case err == nil, errors.Is(err, errHead):
	case !l.started:
		writeFailure(l.w, a.toFailure(ctx, err, subject{}))
	default:
		a.logFailure(ctx, "response ended early", err, "path", requestOf(ctx).path)
		panic(http.ErrAbortHandler)
	}
}
