package httpapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"daybook/internal/resources/budget"
	"daybook/internal/resources/reads"
	"daybook/ledger"
)

// Pace is the minimum speed of a client that sends a body or receives a response. Only
// time in which the server waits for the client counts, so idle streams are not cut.
type Pace struct {
	// Bytes is the number of bytes that a client must send or receive in each Window.
	// Default: 64 KiB. If it is negative, any number of bytes is enough.
	Bytes int64
	// Window is the time that the server waits for these bytes. Default: 30 s.
	Window time.Duration
}

func (p Pace) withDefaults() Pace {
	if p.Bytes == 0 {
		p.Bytes = 64 << 10
	}
	if p.Window == 0 {
		p.Window = 30 * time.Second
	}
	return p
}

// writePiece is the length of the pieces that are written under one deadline, in bytes.
const writePiece = 64 << 10

// progress is the progress of a client in the current window.
type progress struct {
	pace   Pace
	waited time.Duration
	moved  int64
}

// deadline returns the end of the window if the server waits for the client from now on.
func (p *progress) deadline(now time.Time) time.Time {
	return now.Add(max(p.pace.Window-p.waited, 0))
}

// note adds n bytes that the server waited for since start. Once the window has pace.Bytes
// bytes, a new window starts.
func (p *progress) note(start time.Time, n int) {
	p.waited += time.Since(start)
	p.moved += int64(n)
	if n > 0 && p.moved >= p.pace.Bytes {
		p.waited, p.moved = 0, 0
	}
}

// response is the ResponseWriter of a request. It extends the write deadline of the
// connection with the progress of the client.
type response struct {
	http.ResponseWriter
	rc       *http.ResponseController
	progress progress
	started  bool
	// broken is true once a write to the client has failed. In HTTP/2 the context of the
	// request may end later.
	broken bool
	// refused is the failure of reading the request body. It replaces the error response
	// of the handler.
	refused *failure
	// replaced is true once refused was written.
	replaced bool
	// permit is the permit of the request for heavy reads. It is not held while the client
	// receives the response.
	permit *reads.Permit
}

func newResponse(w http.ResponseWriter, pace Pace) *response {
	return &response{ResponseWriter: w, rc: http.NewResponseController(w), progress: progress{pace: pace}}
}

// Unwrap returns the wrapped writer, for http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// renew sets the write deadline and returns the current time. It ignores errors: a
// writer without deadlines (in tests) needs none.
func (w *response) renew() (start time.Time) {
	start = time.Now()
	_ = w.rc.SetWriteDeadline(w.progress.deadline(start))
	return start
}

// WriteHeader starts the response. If reading the request body failed and code is an
// error, it writes that failure instead and discards the body of the handler.
func (w *response) WriteHeader(code int) {
	if code >= http.StatusOK && !w.started {
		w.started = true
		if f := w.refused; f != nil && code >= http.StatusBadRequest {
			w.ResponseWriter.Header().Del("Content-Length")
			writeFailure(w, f)
			w.replaced = true
			return
		}
	}
	w.renew()
	w.ResponseWriter.WriteHeader(code)
}

// Write writes p piece by piece, each under a deadline of its own.
func (w *response) Write(p []byte) (int, error) {
	if w.replaced {
		return len(p), nil
	}
	w.started = true
	w.permit.Yield()
	done := 0
	for {
		end := min(done+writePiece, len(p))
		start := w.renew()
		n, err := w.ResponseWriter.Write(p[done:end])
		w.progress.note(start, n)
		done += n
		w.noteError(err)
		if err != nil || done == len(p) {
			return done, err
		}
	}
}

// Flush sends the buffered bytes. It ignores errors.
func (w *response) Flush() { _ = w.FlushError() }

// FlushError sends the buffered bytes.
func (w *response) FlushError() error {
	w.started = true
	w.permit.Yield()
	start := w.renew()
	err := w.rc.Flush()
	w.progress.note(start, 0)
	w.noteError(err)
	return err
}

// noteError sets broken for the error of a write, unless the handler or the writer caused it.
func (w *response) noteError(err error) {
	switch {
	case err == nil, errors.Is(err, http.ErrBodyNotAllowed), errors.Is(err, http.ErrContentLength), errors.Is(err, http.ErrNotSupported):
	default:
		w.broken = true
	}
}

// bodyCopies is the number of copies of a body in memory while it is decoded and
// recorded: as received, as text, and as a blob before and after compression.
const bodyCopies = 4

const (
	// freeBody is the size up to which a body is not counted, in bytes.
	freeBody = 64 << 10
	// largeBody is the size from which the memory for a complete body is taken before the
	// rest of it is read, in bytes. Bodies that take memory piece by piece could block
	// each other until none can be completed.
	largeBody = 1 << 20
)

// body is a request body with a minimum speed. Its memory is counted in an account.
type body struct {
	io.ReadCloser
	w        *response
	ctx      context.Context // of the request, which is not held: its header may be large
	length   int64           // of the body in bytes, negative if unknown
	account  *budget.Account // nil without limits
	progress progress
	size     int64 // bytes read
	taken    int64 // bytes of the body that are counted in account
	// held is the buffer that WriteTo fills, until forget is called.
	held *bytes.Buffer
}

// extendDeadline sets the deadline for the next bytes and returns the current time. The
// deadline stays until the end of the body: the server reads the part of a body that a
// handler leaves, also after a refusal.
func (b *body) extendDeadline() (start time.Time) {
	start = time.Now()
	_ = b.w.rc.SetReadDeadline(b.progress.deadline(start))
	return start
}

// Read reads with a deadline for the next bytes. At the end of the body it removes the
// deadline: from then on the server watches the connection to detect that the client
// disconnects.
func (b *body) Read(p []byte) (int, error) {
	if b.w.refused != nil {
		return 0, b.w.refused
	}
	start := b.extendDeadline()
	n, err := b.ReadCloser.Read(p)
	b.progress.note(start, n)
	if errors.Is(err, io.EOF) {
		_ = b.w.rc.SetReadDeadline(time.Time{})
	}
	if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
		b.w.refused = bodyTooLarge()
	} else if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrDeadlineExceeded) {
		b.w.refused = fail(http.StatusBadRequest, string(ledger.CodeInvalid), "", "the body is incomplete, or its chunked encoding is malformed; send the request again")
	}
	b.size += int64(n)
	if full := b.take(); full != nil {
		b.w.refused = budgetFailure(full)
		return 0, b.w.refused
	}
	return n, err
}

// take adds the bytes that were read to the account. Of a large body, it also adds the bytes
// that are not read yet, and waits for their memory. If the length of the body is unknown,
// take assumes that as many bytes as were read are still to come.
func (b *body) take() error {
	more := b.size - max(b.taken, freeBody)
	if b.account == nil || more <= 0 {
		return nil
	}
	if b.size <= largeBody {
		if err := b.account.TakeOnce(more * bodyCopies); err != nil {
			return err //nolint:wrapcheck // it becomes the response
		}
		b.taken = b.size
		return nil
	}
	// If the length is unknown, the counted size doubles each time the body exceeds it, as the
	// size of its buffer does.
	whole := max(b.length, min(2*b.size, maxBody))
	need := b.account.Limit(whole*bodyCopies) - b.account.Held()
	_ = b.w.rc.SetReadDeadline(time.Time{}) // the server waits, not the client
	err := budget.Retry(b.ctx, func() error { return b.account.TakeOnce(need) })
	if err != nil {
		return err //nolint:wrapcheck // it becomes the response
	}
	b.taken = whole
	return nil
}

// WriteTo copies the body to w, for io.Copy. It grows a bytes.Buffer to the size of the
// body at once.
func (b *body) WriteTo(w io.Writer) (int64, error) {
	buf, isBuffer := w.(*bytes.Buffer)
	if !isBuffer {
		return io.Copy(w, struct{ io.Reader }{b}) //nolint:wrapcheck // the reader's own error
	}
	b.held = buf
	var done int64
	size := int64(writePiece)
	if b.length >= 0 {
		size = min(size, b.length+1) // one more byte than the body, to meet its end
	}
	piece := make([]byte, size)
	for {
		n, err := b.Read(piece)
		if grow := b.taken - int64(buf.Len()); buf.Available() < n && grow > 0 {
			buf.Grow(int(max(min(grow, maxBody), int64(n))))
		}
		buf.Write(piece[:n])
		done += int64(n)
		if errors.Is(err, io.EOF) {
			return done, nil
		}
		if err != nil {
			return done, err
		}
	}
}

// forget releases a large body that WriteTo has read, and its memory in the account.
func (b *body) forget() {
	if b.held != nil && b.taken > largeBody {
		*b.held = bytes.Buffer{}
		b.release()
	}
}

// release returns the memory of a large body to the account.
func (b *body) release() {
	if b.taken > largeBody {
		b.account.Drop(b.taken * bodyCopies)
		b.taken = 0
	}
}
