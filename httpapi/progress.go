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

// Pace is the least speed of a client that sends a body or takes an answer. Only
// the time in which the server waits for the client counts, so streams without
// anything to send are not cut.
type Pace struct {
	// Bytes is what a client must send or take in each Window. Default: 64 KiB.
	// A negative number asks for any progress in each Window.
	Bytes int64
	// Window is the time that the server waits for those bytes. Default: 30 s.
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

// writePiece is how much is written under one deadline, in bytes.
const writePiece = 64 << 10

// progress is what a client did with the window it is in.
type progress struct {
	pace   Pace
	waited time.Duration
	moved  int64
}

// deadline is when the window ends if the server waits for the client from now on.
func (p *progress) deadline(now time.Time) time.Time {
	return now.Add(max(p.pace.Window-p.waited, 0))
}

// note adds bytes that the server waited for since start. Enough bytes begin a new
// window.
func (p *progress) note(start time.Time, n int) {
	p.waited += time.Since(start)
	p.moved += int64(n)
	if n > 0 && p.moved >= p.pace.Bytes {
		p.waited, p.moved = 0, 0
	}
}

// response moves the connection's write deadline with the progress of the client,
// and remembers whether the answer has begun.
type response struct {
	http.ResponseWriter
	rc       *http.ResponseController
	progress progress
	begun    bool
	// broken is true once the client cannot be written to. In HTTP/2 the context of the
	// request may end later.
	broken bool
	// refused is why the request could not be read: it replaces what the handler
	// answers.
	refused *failure
	// replaced is true once it did.
	replaced bool
	// permit is that of the request for heavy reads. It is not held while the client
	// takes the answer.
	permit *reads.Permit
}

func newResponse(w http.ResponseWriter, pace Pace) *response {
	return &response{ResponseWriter: w, rc: http.NewResponseController(w), progress: progress{pace: pace}}
}

// Unwrap serves http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// renew sets the deadline and returns when it did. It ignores errors: a writer
// without deadlines (in tests) needs none.
func (w *response) renew() (start time.Time) {
	start = time.Now()
	_ = w.rc.SetWriteDeadline(w.progress.deadline(start))
	return start
}

// WriteHeader begins the answer.
func (w *response) WriteHeader(code int) {
	if code >= http.StatusOK && !w.begun {
		w.begun = true
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
	w.begun = true
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

// Flush sends what is buffered.
func (w *response) Flush() { _ = w.FlushError() }

// FlushError sends what is buffered and returns why that failed.
func (w *response) FlushError() error {
	w.begun = true
	w.permit.Yield()
	start := w.renew()
	err := w.rc.Flush()
	w.progress.note(start, 0)
	w.noteError(err)
	return err
}

// noteError takes the error of a write, unless the handler or the writer caused it.
func (w *response) noteError(err error) {
	switch {
	case err == nil, errors.Is(err, http.ErrBodyNotAllowed), errors.Is(err, http.ErrContentLength), errors.Is(err, http.ErrNotSupported):
	default:
		w.broken = true
	}
}

// bodyCopies is how often the content of a body is in memory while it is decoded
// and recorded: as it came, as text, and as a blob before and after it is packed.
const bodyCopies = 4

const (
	// freeBody is how much of a body is not accounted for, in bytes.
	freeBody = 64 << 10
	// largeBody is the size in bytes from which the memory for a whole body is taken
	// before the rest of it is read: bodies that take it piece by piece would keep
	// each other from their end.
	largeBody = 1 << 20
)

// body asks progress of an upload and accounts for it.
type body struct {
	io.ReadCloser
	w        *response
	ctx      context.Context // of the request, which is not held: its header may be large
	length   int64           // of the body, negative if unknown
	account  *budget.Account // nil without limits
	progress progress
	size     int64
	taken    int64 // bytes of the body that are accounted for
	// held is the buffer that WriteTo has filled, until forget.
	held *bytes.Buffer
}

// expect sets the deadline for the next bytes. It stands until the body has ended: the
// server reads what a handler leaves of a body, also of one that it refuses.
func (b *body) expect() (start time.Time) {
	start = time.Now()
	_ = b.w.rc.SetReadDeadline(b.progress.deadline(start))
	return start
}

// Read sets a deadline for the next bytes and lifts it at the end: from then on the
// server watches the connection to notice that the client has gone.
func (b *body) Read(p []byte) (int, error) {
	if b.w.refused != nil {
		return 0, b.w.refused
	}
	start := b.expect()
	n, err := b.ReadCloser.Read(p)
	b.progress.note(start, n)
	if errors.Is(err, io.EOF) {
		_ = b.w.rc.SetReadDeadline(time.Time{})
	}
	if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
		b.w.refused = tooLarge()
	} else if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrDeadlineExceeded) {
		b.w.refused = fail(http.StatusBadRequest, string(ledger.CodeInvalid), "", "the body could not be read to its end: it broke off, or its chunked encoding is malformed; send it again")
	}
	b.size += int64(n)
	if full := b.take(); full != nil {
		b.w.refused = overBudget(full)
		return 0, b.w.refused
	}
	return n, err
}

// take accounts for what was read, and for the whole of a large body.
func (b *body) take() error {
	more := b.size - max(b.taken, freeBody)
	if b.account == nil || more <= 0 {
		return nil
	}
	if b.size <= largeBody {
		if err := b.account.TakeOnce(more * bodyCopies); err != nil {
			return err //nolint:wrapcheck // it is the answer
		}
		b.taken = b.size
		return nil
	}
	// Without a length the memory doubles as the buffer for the body does.
	whole := max(b.length, min(2*b.size, maxBody))
	need := b.account.Limit(whole*bodyCopies) - b.account.Held()
	_ = b.w.rc.SetReadDeadline(time.Time{}) // it is the server that waits
	err := budget.Retry(b.ctx, func() error { return b.account.TakeOnce(need) })
	if err != nil {
		return err //nolint:wrapcheck // it is the answer
	}
	b.taken = whole
	return nil
}

// WriteTo serves io.Copy: it gives a buffer the size of the body at once.
func (b *body) WriteTo(w io.Writer) (int64, error) {
	buf, isBuffer := w.(*bytes.Buffer)
	if !isBuffer {
		return io.Copy(w, struct{ io.Reader }{b}) //nolint:wrapcheck // the reader's own error
	}
	b.held = buf
	var done int64
	piece := make([]byte, writePiece)
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

// forget drops the content of a body that WriteTo has filled, and gives back what the
// body has taken.
func (b *body) forget() {
	if b.held != nil && b.taken > largeBody {
		*b.held = bytes.Buffer{}
		b.release()
	}
}

// release gives back the memory of a large body.
func (b *body) release() {
	if b.taken > largeBody {
		b.account.Drop(b.taken * bodyCopies)
		b.taken = 0
	}
}
