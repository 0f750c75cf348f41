package jet

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"daybook/events"
	"daybook/internal/resources/reads"
)

const (
	// pingInterval is the interval at which the server is pinged, and pingTimeout the time for
	// an answer.
	pingInterval = 500 * time.Millisecond
	pingTimeout  = time.Second
	// silentAfter is the time without a byte from the server after which it is silent. A
	// request that was sent when the server stopped answering fails within 5 s.
	silentAfter = 2500 * time.Millisecond
	// silentTimeout is how long a request to a silent server takes until it fails.
	silentTimeout = 200 * time.Millisecond
)

// silenceDetector detects whether an outside server answers. A nil silenceDetector stands
// for an embedded server, which always answers: it hangs only if this process does.
type silenceDetector struct {
	conn   *nats.Conn
	server string

	mu           sync.Mutex
	answeringCtx context.Context // guarded by mu; done when the server is silent
	end          context.CancelCauseFunc
	back         chan struct{} // guarded by mu; closed when a silent server answers again
	unreachable  bool          // guarded by mu; there is no connection
}

// newSilence returns a silenceDetector that watches a server until its connection is
// closed.
func newSilence(conn *nats.Conn, server string) *silenceDetector {
	w := &silenceDetector{conn: conn, server: server}
	w.answeringCtx, w.end = context.WithCancelCause(context.Background())
	go w.run()
	return w
}

// run pings the server. Every byte that the server sends counts as an answer. If this
// process was suspended, it has received nothing either. Therefore the server is silent
// only after two unanswered pings.
func (w *silenceDetector) run() {
	closed := w.conn.StatusChanged(nats.CLOSED)
	pause := time.NewTimer(pingInterval)
	defer pause.Stop()
	last, received, unanswered := time.Now(), w.conn.Stats().InBytes, 0
	for {
		ctx, stop := context.WithTimeout(context.Background(), pingTimeout)
		// A broken connection fails the ping as a closed one does.
		err := w.conn.FlushWithContext(ctx)
		stop()
		if w.conn.IsClosed() {
			return
		}
		unanswered++
		now := w.conn.Stats().InBytes
		if err == nil || now != received {
			last, received, unanswered = time.Now(), now, 0
		}
		w.set(unanswered >= 2 && time.Since(last) >= silentAfter, !w.conn.IsConnected())
		pause.Reset(pingInterval)
		select {
		case <-pause.C:
		case <-closed:
			return
		}
	}
}

// set records whether the server is silent, and whether there is no connection to it.
func (w *silenceDetector) set(silent, unreachable bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unreachable = unreachable
	switch was := w.answeringCtx.Err() != nil; {
	case silent && !was:
		w.end(context.DeadlineExceeded)
		w.back = make(chan struct{})
	case !silent && was:
		close(w.back)
		w.answeringCtx, w.end = context.WithCancelCause(context.Background())
	}
}

// answering returns a context that is done when the server is silent.
func (w *silenceDetector) answering() context.Context {
	if w == nil {
		return context.Background()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.answeringCtx
}

// err returns an *events.NoAnswerError while the server is silent, or nil. It does not
// ask the connection, which is locked for seconds during a reconnect, or while a write
// to a hanging server fails.
func (w *silenceDetector) err() error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.answeringCtx.Err() == nil {
		return nil
	}
	return &events.NoAnswerError{Server: w.server, Unreachable: w.unreachable}
}

// awaitAnswers waits while the server is silent. If ctx is done first, it returns an
// *events.NoAnswerError.
func (w *silenceDetector) awaitAnswers(ctx context.Context) error {
	for err := w.err(); err != nil; err = w.err() {
		w.mu.Lock()
		back := w.back
		w.mu.Unlock()
		select {
		case <-back:
		case <-ctx.Done():
			return err
		}
	}
	return nil
}

// explain replaces the error of an unanswered request if the server is silent.
func (w *silenceDetector) explain(err error) error {
	if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) && !errors.Is(err, nats.ErrTimeout) && !errors.Is(err, nats.ErrReconnectBufExceeded) {
		return err
	}
	if why := w.err(); why != nil {
		return why
	}
	return err
}

// Silent returns an *events.NoAnswerError while an outside server does not answer, or
// nil.
func (c *Client) Silent() error { return c.silence.err() }

// AwaitAnswers waits up to 200 ms while an outside server does not answer. If it still
// does not answer, AwaitAnswers returns an *events.NoAnswerError. It sends nothing.
func (c *Client) AwaitAnswers(ctx context.Context) error {
	if c.silence.err() == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, silentTimeout)
	defer cancel()
	return c.silence.awaitAnswers(ctx)
}

// boundRead returns a context for the requests of a reader, which is done soon after the
// server becomes silent. If the server is already silent and stays so, the context is
// done, and no request is sent. The caller MUST call ended with the error of the
// requests. ended replaces this error by an *events.NoAnswerError if the server was
// silent.
func (c *Client) boundRead(ctx context.Context) (bounded context.Context, ended func(*error)) {
	if c.silence == nil {
		return ctx, func(*error) {}
	}
	began, reader := time.Now(), ctx
	ctx, cancel := context.WithCancelCause(reader)
	if c.silence.err() != nil {
		// Readers that try again must not spin, and must not wait for each other.
		_ = reads.Wait(ctx, func() error { return Wait(ctx, silentTimeout) })
		if why := c.silence.err(); why != nil {
			cancel(why)
		}
	}
	stop := context.AfterFunc(c.silence.answering(), func() {
		_ = Wait(ctx, silentTimeout-time.Since(began)) // a reader that has just started must not spin either
		if why := c.silence.err(); why != nil {
			cancel(why)
		}
	})
	return ctx, func(err *error) {
		stop()
		// The server may answer again already.
		why, cut := errors.AsType[*events.NoAnswerError](context.Cause(ctx))
		cancel(nil)
		switch {
		case *err == nil, errors.Is(reader.Err(), context.Canceled):
		case cut && errors.Is(*err, context.Canceled):
			*err = why
		default:
			*err = c.silence.explain(*err)
		}
		if _, silent := errors.AsType[*events.NoAnswerError](*err); silent {
			reads.ReportWait(reader)
		}
	}
}

// BoundRequest returns a context for one request. It is done after Options.TryWait, and
// soon after an outside server becomes silent. The caller MUST call ended with the error
// of the request. ended replaces this error by an *events.NoAnswerError if the server was
// silent.
func (c *Client) BoundRequest(ctx context.Context) (bounded context.Context, ended func(*error)) {
	ctx, cancel := context.WithTimeout(ctx, c.Options.TryWait)
	ctx, heard := c.boundRead(ctx)
	return ctx, func(err *error) {
		heard(err)
		cancel()
	}
}

// Answering returns a context that is done when an outside server does not answer.
func (c *Client) Answering() context.Context { return c.silence.answering() }

// Explain replaces the error of an unanswered request with an *events.NoAnswerError if
// an outside server does not answer.
func (c *Client) Explain(err error) error { return c.silence.explain(err) }
