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
	// hearEvery is how often the server is asked for a sign of life, and hearWait how
	// long it may take.
	hearEvery = 500 * time.Millisecond
	hearWait  = time.Second
	// silentAfter is after how long without a byte from the server it is silent. A
	// request that began before is answered within 5 s.
	silentAfter = 2500 * time.Millisecond
	// silentTry is how long a request to a silent server takes.
	silentTry = 200 * time.Millisecond
)

// silence knows whether an outside server answers. A nil silence has a server that
// always does: an embedded server does not hang without this process.
type silence struct {
	conn   *nats.Conn
	server string

	mu          sync.Mutex
	heard       context.Context // guarded by mu; ends when the server is silent
	end         context.CancelCauseFunc
	back        chan struct{} // guarded by mu; closed when a silent server answers again
	unreachable bool          // guarded by mu; there is no connection
}

// newSilence watches a server until its connection is closed.
func newSilence(conn *nats.Conn, server string) *silence {
	w := &silence{conn: conn, server: server}
	w.heard, w.end = context.WithCancelCause(context.Background())
	go w.run()
	return w
}

// run asks the server for signs of life. Whatever it sends is one. A process that was
// stopped for long has seen no sign either: the server is silent when it was asked twice.
func (w *silence) run() {
	closed := w.conn.StatusChanged(nats.CLOSED)
	pause := time.NewTimer(hearEvery)
	defer pause.Stop()
	last, received, unanswered := time.Now(), w.conn.Stats().InBytes, 0
	for {
		ctx, stop := context.WithTimeout(context.Background(), hearWait)
		// A connection that breaks fails the request as one that is closed does.
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
		pause.Reset(hearEvery)
		select {
		case <-pause.C:
		case <-closed:
			return
		}
	}
}

// set notes whether the server is silent, and whether there is no connection to it.
func (w *silence) set(silent, unreachable bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unreachable = unreachable
	switch was := w.heard.Err() != nil; {
	case silent && !was:
		w.end(context.DeadlineExceeded)
		w.back = make(chan struct{})
	case !silent && was:
		close(w.back)
		w.heard, w.end = context.WithCancelCause(context.Background())
	}
}

// answering returns a context that ends when the server is silent.
func (w *silence) answering() context.Context {
	if w == nil {
		return context.Background()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.heard
}

// err is a *events.NoAnswerError while the server is silent, or nil. It does not ask the
// connection: that is locked for seconds while it is made again, or while a write to a
// server that hangs fails.
func (w *silence) err() error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.heard.Err() == nil {
		return nil
	}
	return &events.NoAnswerError{Server: w.server, Unreachable: w.unreachable}
}

// awaitAnswers waits while the server is silent. It returns a *events.NoAnswerError when
// ctx ends before.
func (w *silence) awaitAnswers(ctx context.Context) error {
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

// explain replaces the error of a request that had no answer.
func (w *silence) explain(err error) error {
	if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) && !errors.Is(err, nats.ErrTimeout) && !errors.Is(err, nats.ErrReconnectBufExceeded) {
		return err
	}
	if why := w.err(); why != nil {
		return why
	}
	return err
}

// Silent returns a *events.NoAnswerError while an outside server does not answer, or
// nil.
func (c *Client) Silent() error { return c.silence.err() }

// AwaitAnswers waits 200 ms at most while an outside server does not answer. It returns a
// *events.NoAnswerError if the server does not answer by then. Nothing is sent.
func (c *Client) AwaitAnswers(ctx context.Context) error {
	if c.silence.err() == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, silentTry)
	defer cancel()
	return c.silence.awaitAnswers(ctx)
}

// heard bounds requests of a reader to the time in which the server answers. A server that
// is silent when the reader comes is not asked: the context has ended. The caller MUST
// call ended with the error of the requests, which becomes a *events.NoAnswerError if the
// server was silent.
func (c *Client) heard(ctx context.Context) (bounded context.Context, ended func(*error)) {
	if c.silence == nil {
		return ctx, func(*error) {}
	}
	began, reader := time.Now(), ctx
	ctx, cancel := context.WithCancelCause(reader)
	if c.silence.err() != nil {
		// Readers that try again do not spin, and do not wait for each other.
		_ = reads.Wait(ctx, func() error { return Wait(ctx, silentTry) })
		if why := c.silence.err(); why != nil {
			cancel(why)
		}
	}
	stop := context.AfterFunc(c.silence.answering(), func() {
		_ = Wait(ctx, silentTry-time.Since(began)) // nor do those that come just before
		if why := c.silence.err(); why != nil {
			cancel(why)
		}
	})
	return ctx, func(err *error) {
		stop()
		// The server may answer again by now.
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
			reads.Waited(reader)
		}
	}
}

// BoundRequest is heard for one request, which takes Options.TryWait at most.
func (c *Client) BoundRequest(ctx context.Context) (bounded context.Context, ended func(*error)) {
	ctx, cancel := context.WithTimeout(ctx, c.Options.TryWait)
	ctx, heard := c.heard(ctx)
	return ctx, func(err *error) {
		heard(err)
		cancel()
	}
}

// Answering returns a context that ends when an outside server does not answer.
func (c *Client) Answering() context.Context { return c.silence.answering() }

// Explain replaces the error of a request that had no answer with a
// *events.NoAnswerError if an outside server does not answer.
func (c *Client) Explain(err error) error { return c.silence.explain(err) }
