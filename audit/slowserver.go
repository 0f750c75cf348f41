package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// A server that sends fewer than answerBytes bytes of an answer in answerTime, and does not complete it either, gives
// no answer. Only time in which the server is waited for counts.
const (
	answerTime  = 15 * time.Minute
	answerBytes = 64 << 10
)

var errSlow = fmt.Errorf("the server sent less than %d KiB in %v", answerBytes>>10, answerTime)

// withPace returns ask with an end for answers that are too slow: then the error is an *AnswerError.
func withPace(ask Get) Get {
	if ask == nil {
		return nil
	}
	return func(ctx context.Context, path string, header ...string) (*http.Response, error) {
		ctx, stop := context.WithCancelCause(ctx)
		b := &pacedBody{ctx: ctx, stop: stop, timer: time.AfterFunc(answerTime, func() { stop(errSlow) })}
		start := time.Now()
		resp, err := ask(ctx, path, header...)
		if err = b.note(start, 0, err); err != nil {
			stop(nil)
			return nil, err
		}
		b.ReadCloser, resp.Body = resp.Body, b
		return resp, nil
	}
}

// pacedBody is the body of an answer. It is not safe for concurrent use.
type pacedBody struct {
	io.ReadCloser
	ctx   context.Context
	stop  context.CancelCauseFunc
	timer *time.Timer // runs while the server is waited for
	// waited and received are those since answerBytes were received.
	waited   time.Duration
	received int
}

// note adds what was received since start, and returns the error to report.
func (b *pacedBody) note(start time.Time, n int, err error) error {
	b.timer.Stop()
	b.waited += time.Since(start)
	if b.received += n; b.received >= answerBytes {
		b.waited, b.received = 0, 0
	}
	if err != nil && !errors.Is(err, io.EOF) && errors.Is(context.Cause(b.ctx), errSlow) {
		return &AnswerError{errSlow}
	}
	return err
}

// Read implements io.Reader.
func (b *pacedBody) Read(p []byte) (int, error) {
	start := time.Now()
	b.timer.Reset(max(answerTime-b.waited, 0))
	n, err := b.ReadCloser.Read(p)
	return n, b.note(start, n, err)
}

// Close implements io.Closer.
func (b *pacedBody) Close() error {
	b.timer.Stop()
	err := b.ReadCloser.Close()
	b.stop(nil)
	return err
}
