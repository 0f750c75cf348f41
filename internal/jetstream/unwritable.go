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
)

// unwritable is why nothing can be stored, or nil.
func (s *Store) unwritable() error {
	if s.opts.ReadOnly != nil {
		if err := s.opts.ReadOnly(); err != nil {
			return err
		}
	}
	if s.opts.Writable == nil || s.opts.Writable.Err() == nil {
		return nil
	}
	return &events.UnwritableError{What: "the ledger", Reason: whyUnwritable(context.Cause(s.opts.Writable))}
}

// publish sends one message and waits until it is stored. A server that cannot
// store it gives no answer, so it is not waited for once that is known.
func (s *Store) publish(ctx context.Context, m *nats.Msg) (*natsjs.PubAck, error) {
	if err := s.unwritable(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.TryWait)
	defer cancel()
	if s.opts.Writable != nil {
		defer context.AfterFunc(s.opts.Writable, cancel)()
	}
	ack, err := s.js.PublishMsg(ctx, m)
	if err == nil {
		if s.opts.Stored != nil {
			s.opts.Stored(ack.Stream, ack.Sequence)
		}
		return ack, nil
	}
	return nil, cmp.Or(s.unwritable(), err)
}

func isUnwritable(err error) bool {
	_, ok := errors.AsType[*events.UnwritableError](err)
	return ok
}

// whyUnwritable puts an error that names files and calls into what an operator
// can act upon.
func whyUnwritable(err error) string {
	const restart = ", then restart the server; what was acknowledged is safe"
	for _, known := range []struct {
		errno syscall.Errno
		text  string
	}{
		{syscall.ENOSPC, "the disk is full; free some space"},
		{syscall.EDQUOT, "the disk quota is used up; raise it or free some space"},
		{syscall.EFBIG, "a file has the largest size that this process may write; raise that limit (ulimit -f)"},
		{syscall.EROFS, "the file system is read-only; make it writable"},
		{syscall.EACCES, "writing is not permitted in the data directory; permit it"},
		{syscall.EIO, "the disk reports input/output errors; see to it"},
	} {
		if errors.Is(err, known.errno) {
			return known.text + restart
		}
	}
	return fmt.Sprintf("its storage failed (%v); see to it", err) + restart
}
