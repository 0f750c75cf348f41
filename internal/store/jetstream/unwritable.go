package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
	"daybook/internal/resources/exhausted"
)

// unwritable is why nothing can be stored, or nil.
func (s *Store) unwritable() error { return cmp.Or(s.unwritableHere(), s.full.err()) }

// unwritableHere is why nothing is sent to be stored, or nil.
func (s *Store) unwritableHere() error {
	if s.opts.ReadOnly != nil {
		if err := s.opts.ReadOnly(); err != nil {
			return err
		}
	}
	if s.opts.Writable == nil {
		return nil
	}
	return unwritable(s.opts.Writable())
}

// hold is why no work may be taken, or nil: what it does could not be recorded.
func (s *Store) hold() error {
	if s.opts.Hold != nil {
		if err := s.opts.Hold(); err != nil {
			return err
		}
	}
	return s.unwritable()
}

// unwritable is why a server whose writes ended can store nothing, or nil.
func unwritable(writable context.Context) error {
	if writable.Err() == nil {
		return nil
	}
	reason, passes := whyUnwritable(context.Cause(writable))
	return &events.UnwritableError{What: "the ledger", Reason: reason, Passes: passes}
}

// Unwritable is why the server can store nothing now, as *events.UnwritableError, or
// nil.
func (s *Store) Unwritable() error { return s.unwritable() }

// publish sends one message and waits until it is stored. An embedded server that cannot
// store it gives no answer, so it is not waited for once that is known.
func (s *Store) publish(ctx context.Context, m *nats.Msg) (*natsjs.PubAck, error) {
	refusal := s.unwritable
	if ctx.Value(tryingKey{}) != nil {
		refusal = s.unwritableHere
	}
	if err := refusal(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.TryWait)
	defer cancel()
	writable := context.Background()
	if s.opts.Writable != nil {
		writable = s.opts.Writable() // the one of now: another one may follow
		defer context.AfterFunc(writable, cancel)()
	}
	// What is sent to a server that hangs fills the connection, and locks it.
	if err := s.silence.awaitAnswers(ctx); err != nil {
		return nil, cmp.Or(unwritable(writable), s.unwritable(), err)
	}
	if s.opts.Writing != nil {
		s.opts.Writing(len(m.Data))
	}
	ack, err := s.js.PublishMsg(ctx, m)
	if err == nil {
		if s.opts.Stored != nil {
			s.opts.Stored(ack.Stream, ack.Sequence)
		}
		return ack, nil
	}
	if full := s.noteFull(err, len(m.Data)); full != nil {
		return nil, full
	}
	return nil, cmp.Or(unwritable(writable), s.unwritable(), err)
}

func isUnwritable(err error) bool {
	_, ok := errors.AsType[*events.UnwritableError](err)
	return ok
}

// whyUnwritable puts an error that names files and calls into what an operator
// can act upon. It reports whether the server takes writes again by itself.
func whyUnwritable(err error) (reason string, passes bool) {
	r, passes := exhausted.Of(err)
	if !passes {
		r, passes = exhausted.In(err.Error())
	}
	if passes {
		return r.Reason + "; the server then takes writes again by itself, and what was acknowledged is safe", true
	}
	const restart = ", then restart the server; what was acknowledged is safe"
	for _, known := range []struct {
		errno syscall.Errno
		text  string
	}{
		{syscall.EROFS, "the file system is read-only; make it writable"},
		{syscall.EACCES, "writing is not permitted in the data directory; permit it"},
		{syscall.EIO, "the disk reports input/output errors; see to it"},
	} {
		if errors.Is(err, known.errno) {
			return known.text + restart, false
		}
	}
	return fmt.Sprintf("its storage failed (%v); see to it", err) + restart, false
}
