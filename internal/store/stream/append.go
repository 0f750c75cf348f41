package stream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
	"daybook/internal/store/jet"
)

// appendTimeout bounds an append whose context has no deadline.
const appendTimeout = 30 * time.Second

// Append stores e and returns its position once it is on disk. after is the expected
// last position on the subject of e, 0 for none. If another event is the last one,
// Append stores nothing and returns events.ErrConflict. A negative after appends
// without condition.
//
// If an acknowledgement is lost, Append looks up the event before it tries again or
// reports a conflict. The caller MAY also append the same event again: it is stored
// once. Without condition, this is true only for two minutes and within one volume, and
// not for output, which has no message id.
//
// Append returns events.ErrTooLarge for an event over its size limit, and
// *events.UnwritableError if nothing can be stored. After any other error the outcome
// is unknown, or the server refused the event. Without a deadline in ctx it returns
// after 30 s.
func (s *Ledger) Append(ctx context.Context, e events.Event, after int64) (uint64, error) {
	if e.EncryptWithKey != "" {
		var err error // encrypted once: every try stores the same bytes
		if e, err = events.Encrypt(e, e.EncryptWithKey, s.opts.Keys); err != nil {
			return 0, fmt.Errorf("append %s: %w", e.Type, err)
		}
	}
	m, err := encode(e)
	if err != nil {
		return 0, err
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, appendTimeout)
		defer cancel()
	}
	a := appendOp{s: s, e: e, m: m, after: after, since: s.lastStored.Load()}
	if after >= 0 {
		a.since = uint64(after)
	}
	for try := 0; ; try++ {
		seq, err := a.tryOnce(ctx)
		switch {
		case err == nil:
			return seq, nil
		case errors.Is(err, events.ErrConflict):
			return 0, fmt.Errorf("append %s on %s after %d: %w", e.Type, StoredSubject(s.volumes().active().number, e.Subject()), after, err)
		case jet.IsSealedError(err):
			// Another process sealed the volume. The next one exists or is being created.
			if rerr := s.Refresh(ctx); rerr != nil {
				s.jet.Options.Logger.WarnContext(ctx, "cannot find the next volume", "err", rerr)
			} else {
				continue
			}
		case jet.IsRejected(err), jet.IsUnwritable(err):
			return 0, fmt.Errorf("append %s: %w", e.Type, err)
		}
		if werr := jet.Wait(ctx, min(time.Duration(try+1)*20*time.Millisecond, time.Second)); werr != nil {
			return 0, fmt.Errorf("append %s: outcome unknown: %w", e.Type, s.jet.Explain(err))
		}
	}
}

// appendOp is one call of Append.
type appendOp struct {
	s     *Ledger
	e     events.Event
	m     events.Message // e, encoded
	after int64
	// since is a position that is lower than any at which the event may be stored.
	since uint64
	// unknownIn is the volume of an earlier try with an unknown outcome, or 0.
	unknownIn events.Volume
}

// tryOnce tries once, in the active volume. Only another process can seal it during the
// call.
func (a *appendOp) tryOnce(ctx context.Context) (uint64, error) {
	s := a.s
	s.appendMu.RLock()
	defer s.appendMu.RUnlock()
	now := s.volumes()
	v := now.active()
	// Within a volume the server recognizes events by their message ids.
	if a.unknownIn != 0 && (a.unknownIn != v.number || !hasMsgID(a.e)) {
		if seq, err := s.find(ctx, now, a.e, a.since); !errors.Is(err, events.ErrNotFound) {
			return seq, err
		}
	}
	m := message(v.number, a.e, a.m)
	if a.after >= 0 {
		position, err := s.expectedSeqInActive(ctx, now, a.e, uint64(a.after))
		if errors.Is(err, events.ErrConflict) {
			return a.resolveConflict(ctx, now)
		}
		if err != nil {
			return 0, err
		}
		m.Header.Set(natsjs.ExpectedLastSubjSeqHeader, strconv.FormatUint(position, 10))
	}
	if s.opts.Prepare != nil {
		s.opts.Prepare(ctx, v.live(), a.e)
	}
	seq, err := s.publishTo(ctx, v, m, a.m)
	switch {
	case err == nil:
	case jet.IsConflict(err):
		return a.resolveConflict(ctx, now)
	case !jet.IsRejected(err) && !jet.IsUnwritable(err):
		a.unknownIn = v.number
	}
	return seq, err
}

// resolveConflict looks up whether the event that caused a conflict is the event
// itself, and then returns its position.
func (a *appendOp) resolveConflict(ctx context.Context, now *volumes) (uint64, error) {
	seq, err := a.s.find(ctx, now, a.e, a.since)
	if errors.Is(err, events.ErrNotFound) {
		return 0, events.ErrConflict
	}
	if err != nil {
		return 0, fmt.Errorf("look up whether the event is stored: %w", err)
	}
	return seq, nil
}

// encode returns the wire form of an event. Its subject names no volume.
func encode(e events.Event) (events.Message, error) {
	m, err := events.Encode(e)
	if err != nil {
		return events.Message{}, err
	}
	if err := jet.CheckTokens(e.Tenant, e.About()); err != nil {
		return events.Message{}, fmt.Errorf("append %s: %w", e.Type, err)
	}
	return m, nil
}

// message returns the NATS message that appends an encoded event to a volume.
func message(v events.Volume, e events.Event, w events.Message) *nats.Msg {
	m := &nats.Msg{Subject: StoredSubject(v, w.Subject), Header: maps.Clone(nats.Header(w.Header)), Data: w.Body}
	if hasMsgID(e) {
		m.Header.Set(natsjs.MsgIDHeader, e.ID)
	}
	return m
}

// hasMsgID reports whether an event carries a message id. Output does not, to save
// memory of the server. A second try of output first looks up whether the first one
// stored it.
func hasMsgID(e events.Event) bool { return e.Type != events.TypeExecutionOutput }

// publishTo publishes m, which appends the encoded event w, and passes the event to the
// followers of this process.
func (s *Ledger) publishTo(ctx context.Context, v volume, m *nats.Msg, w events.Message) (uint64, error) {
	ack, err := s.jet.Publish(ctx, m)
	if err != nil {
		return 0, err
	}
	if ack.Stream != v.stream() {
		return 0, fmt.Errorf("stream %s stored the event, not %s: %w", ack.Stream, v.stream(), jet.ErrRejected)
	}
	if ack.Duplicate {
		if err := s.checkDuplicate(ctx, v, m, ack.Sequence); err != nil {
			return 0, err
		}
		s.observeStored(ack.Sequence) // its bytes may be those of another try
		return ack.Sequence, nil
	}
	s.advanceStored(ack.Sequence)
	s.notifiers.announce(events.Stored{Seq: ack.Sequence, Subject: m.Subject, Header: w.Header, Body: w.Body})
	return ack.Sequence, nil
}

// checkDuplicate returns an error unless a message, which the server took for one that it
// had stored before, is at that position. The server compares message ids, which no proof
// covers.
func (s *Ledger) checkDuplicate(ctx context.Context, v volume, m *nats.Msg, position uint64) error {
	seq, header, err := s.jet.NextAtLeader(ctx, v.stream(), m.Subject, position)
	if err != nil && !errors.Is(err, events.ErrNotFound) {
		return fmt.Errorf("look up whether the event is stored at position %d: %w", position, err)
	}
	if id := events.HeaderValue(m.Header, "ce-id"); err != nil || seq != position || events.HeaderValue(header, "ce-id") != id {
		err := s.damageErrorf("the server takes event %s for the one at position %d, which is another event", id, position)
		return fmt.Errorf("%w: %w", jet.ErrRejected, err)
	}
	return nil
}

// find returns the position of an event with the id of e on the same subject at a
// position greater than after, or events.ErrNotFound. It asks the leaders of the
// streams, because another replica may lack the newest messages.
func (s *Ledger) find(ctx context.Context, now *volumes, e events.Event, after uint64) (uint64, error) {
	for _, v := range now.list[now.indexOf(after+1):] {
		seq := uint64(0)
		switch {
		case v.removed != nil:
			seq = v.removed.find(e, after+1)
		case v.archive != nil:
			var err error
			if seq, err = v.archive.find(ctx, e, after+1); err != nil {
				return 0, err
			}
		}
		if seq != 0 {
			return seq, nil
		}
		if v.segment() != nil {
			continue
		}
		for from := max(after+1, v.first); ; {
			seq, header, err := s.jet.NextAtLeader(ctx, v.stream(), StoredSubject(v.number, e.Subject()), from)
			if err != nil {
				var now volume
				if now, err = s.reloadIfGone(ctx, v, err); now.segment() != nil {
					return s.find(ctx, s.volumes(), e, after) // it was archived or removed
				}
			}
			if errors.Is(err, events.ErrNotFound) {
				break
			}
			if err != nil {
				return 0, err
			}
			if events.HeaderValue(header, "ce-id") == e.ID {
				s.observeStored(seq)
				return seq, nil
			}
			from = seq + 1
		}
	}
	return 0, events.ErrNotFound
}
