package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
)

// array writes the elements of a JSON array as they are read, so that no answer is
// held in memory. It is written between a prefix and a suffix of the answer.
type array struct {
	w     http.ResponseWriter
	ctx   context.Context
	buf   bytes.Buffer // what is encoded and not written yet
	begun bool
	head  bool // of a HEAD request, which has no body
	// prefix and suffix enclose the elements.
	prefix, suffix string
}

// arrayPiece is from how many bytes on elements are written.
const arrayPiece = 16 << 10

// errHead ends the reading for a HEAD request.
var errHead = errors.New("no body is asked for")

// startArray prepares an answer that is an array.
func startArray(w http.ResponseWriter, r *http.Request) *array {
	return &array{w: w, ctx: r.Context(), head: r.Method == http.MethodHead, prefix: "[", suffix: "]\n"}
}

// begin writes what comes before the elements.
func (l *array) begin() error {
	if l.begun {
		return nil
	}
	l.begun = true
	l.w.Header().Set("Content-Type", "application/json")
	l.w.WriteHeader(http.StatusOK)
	if l.head {
		return errHead
	}
	l.buf.WriteString(l.prefix)
	return nil
}

// add writes an element.
func (l *array) add(v any) error {
	if l.begun {
		l.buf.WriteByte(',')
	} else if err := l.begin(); err != nil {
		return err
	}
	if err := encoder(&l.buf).Encode(v); err != nil {
		return fmt.Errorf("encode the answer: %w", err)
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

// flush writes what is encoded.
func (l *array) flush() error {
	_, err := l.w.Write(l.buf.Bytes())
	if l.buf.Cap() > keptBuffer {
		l.buf = bytes.Buffer{}
	}
	l.buf.Reset()
	return err
}

// endArray ends an answer after all elements, or with the error that came before. An
// error before the first element is answered as one. After it the connection is cut,
// because a clean end would pass for the whole answer.
func (a *api) endArray(ctx context.Context, l *array, err error) {
	if err == nil {
		if err = l.begin(); err == nil {
			l.buf.WriteString(l.suffix)
			err = l.flush()
		}
	}
	switch {
	case err == nil, errors.Is(err, errHead):
	case !l.begun:
		writeFailure(l.w, a.failed(ctx, err, subject{}))
	default:
		if ctx.Err() == nil {
			a.log.WarnContext(ctx, "an answer broke off", "path", requestOf(ctx).path, "error", err)
		}
		panic(http.ErrAbortHandler)
	}
}
