package stream

import (
	"context"
	"errors"
	"fmt"

	"daybook/events"
	"daybook/internal/resources/budget"
	"daybook/internal/spans"
	"daybook/internal/store/jet"
)

// pieceBytes bounds the messages that a subjectReader requests at once, in bytes. The
// server sends at least one message. messageBytes is the maximum size of a message.
const (
	pieceBytes   = 128 << 10
	messageBytes = 512 << 10
)

// ExecutionEvents calls fn with every event of an execution that is stored before the
// call, control events and output, in order of position. It holds a few events at a
// time and takes their memory from the account in ctx. It returns an error of fn
// unchanged, and events.ErrNotFound if there is no event.
func (s *Ledger) ExecutionEvents(ctx context.Context, tenant, execution string, fn func(events.Event) error) error {
	if err := jet.CheckTokens(tenant, execution); err != nil {
		return err
	}
	var control, output subjectReader
	var requested *events.Stored
	for {
		now, since := s.volumes(), s.jet.Writable()
		var last *events.Stored
		var err error
		requested, last, err = s.readEnds(ctx, now, tenant, execution)
		if errors.Is(err, errRemovedMeanwhile) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read execution %s: %w", execution, err)
		}
		switch {
		case requested == nil && (last == nil || spans.Between(s.Lost(), 1, last.Seq) > 0):
			return events.ErrNotFound // an execution whose request is lost is treated as unknown
		case requested == nil:
			err = s.missingError(now, "execution %s has events up to position %d, but its request cannot be found", execution, last.Seq)
			if errors.Is(err, errRemovedMeanwhile) {
				continue
			}
			return err
		}
		control = subjectReader{s: s, now: now, subject: events.ExecSubject(tenant, execution), from: requested.Seq + 1, tally: tally{since: since}}
		if last != nil {
			control.end = last.Seq
		}
		output = subjectReader{s: s, now: now, subject: events.OutSubject(tenant, execution), from: requested.Seq + 1, tally: tally{since: since}}
		// Several executions share the subject of output.
		output.wants = func(m events.Stored) bool { return events.HeaderValue(m.Header, "ce-subject") == execution }
		end, err := s.lastMessageIn(ctx, now.list, output.subject)
		switch {
		case err == nil:
			output.end = end.Seq
		case !errors.Is(err, events.ErrNotFound):
			return fmt.Errorf("read the output of execution %s: %w", execution, err)
		}
		break
	}
	// Each reader holds a piece and the message that exceeded its size.
	if err := budget.TakeOnce(ctx, 2*(pieceBytes+messageBytes)); err != nil {
		return err
	}
	next := requested
	for next != nil {
		e, err := s.Decode(*next)
		if err != nil {
			return err
		}
		if err := fn(e); err != nil {
			return err
		}
		a, err := control.peek(ctx)
		if err != nil {
			return fmt.Errorf("read execution %s: %w", execution, err)
		}
		b, err := output.peek(ctx)
		if err != nil {
			return fmt.Errorf("read the output of execution %s: %w", execution, err)
		}
		switch {
		case a != nil && (b == nil || a.Seq < b.Seq):
			next = control.take()
		case b != nil:
			next = output.take()
		default:
			next = nil
		}
	}
	return nil
}

// subjectReader reads the messages on a subject in pieces. from is the first position that
// is not read yet, and end the last one to read. A message on the subject MUST be at end.
// A subjectReader is not safe for concurrent use.
type subjectReader struct {
	s         *Ledger
	now       *volumes
	subject   string
	wants     func(events.Stored) bool // nil selects all messages
	from, end uint64
	list      []events.Stored
	tally     tally
}

// peek returns the next message, or nil at the end.
func (r *subjectReader) peek(ctx context.Context) (*events.Stored, error) {
	for len(r.list) == 0 && r.from <= r.end {
		if err := r.fill(ctx); err != nil {
			return nil, err
		}
	}
	if len(r.list) == 0 {
		if err := r.s.checkTally(ctx, &r.tally, r.now, r.subject, r.from-1); err != nil {
			return nil, err
		}
		return nil, nil //nolint:nilnil // there is none, which is no error
	}
	return &r.list[0], nil
}

func (r *subjectReader) take() *events.Stored {
	m := r.list[0]
	r.list[0] = events.Stored{}
	r.list = r.list[1:]
	return &m
}

func (r *subjectReader) fill(ctx context.Context) error {
	r.list = nil
	for _, v := range r.now.list[r.now.indexOf(r.from):] {
		var got uint64
		n := 0
		q := jet.Request{Seq: max(r.from, v.first), NextBySubject: StoredSubject(v.number, r.subject), Batch: jet.BatchMessages, MaxBytes: pieceBytes}
		pending, err := r.s.getBatchFromVolume(ctx, v, q, func(m events.Stored) error {
			got = m.Seq
			n++
			if m.Seq <= r.end && (r.wants == nil || r.wants(m)) {
				r.list = append(r.list, m)
			}
			return nil
		})
		if err == nil {
			err = r.s.addToTally(&r.tally, r.now, v, n, pending, r.subject, r.from-1)
		}
		if err != nil {
			return err
		}
		if got > 0 {
			r.from = got + 1
			return nil
		}
	}
	if r.end > r.s.Removed().UpTo() {
		if err := r.s.jet.CheckReliable(r.tally.since); err != nil {
			return err
		}
		return r.s.damageErrorf("position %d on %s cannot be read", r.end, StoredSubject(r.now.active().number, r.subject))
	}
	r.from = r.end + 1 // removed during the reading
	return nil
}
