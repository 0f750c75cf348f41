package stream

import (
	"context"
	"errors"
	"fmt"
	"math"

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

// ExecutionEvents calls fn with every event of an execution at a position greater than after
// that is stored before the call, control events and output, in order of position. Of an ended
// execution it leaves out output after the end, which does not count. It holds a few events at
// a time and takes their memory from the account in ctx. It returns an error of fn unchanged,
// and events.ErrNotFound if the execution has no event.
func (s *Ledger) ExecutionEvents(ctx context.Context, tenant, execution string, after uint64, fn func(events.Event) error) error {
	if err := jet.CheckTokens(tenant, execution); err != nil {
		return err
	}
	for {
		now, since := s.volumes(), s.jet.Writable()
		requested, last, err := s.readEnds(ctx, now, tenant, execution)
		if err == nil && requested == nil && last != nil && spans.Between(s.Lost(), 1, last.Seq) == 0 {
			err = s.missingError(now, "execution %s has events up to position %d, but its request cannot be found", execution, last.Seq)
		}
		switch {
		case errors.Is(err, errRemovedMeanwhile):
			continue
		case err != nil:
			return fmt.Errorf("read execution %s: %w", execution, err)
		case requested == nil:
			return events.ErrNotFound // an execution whose request is lost is treated as unknown
		}
		r := executionReader{s: s, now: now, since: since, tenant: tenant, execution: execution, fn: fn}
		return r.read(ctx, requested, last, after)
	}
}

// executionReader reads the events of one execution.
type executionReader struct {
	s                 *Ledger
	now               *volumes
	since             context.Context //nolint:containedctx // the result of Client.Writable before the reading
	tenant, execution string
	fn                func(events.Event) error
}

// read calls fn with the events after a position. requested is the first one, and last the last
// control event, or nil.
func (r *executionReader) read(ctx context.Context, requested, last *events.Stored, after uint64) error {
	// Each subject reader holds a piece and the message that exceeded its size.
	if err := budget.TakeOnce(ctx, 2*(pieceBytes+messageBytes)); err != nil {
		return err
	}
	if after < requested.Seq {
		if err := r.emit(*requested); err != nil {
			return err
		}
		after = requested.Seq
	}
	until := uint64(math.MaxUint64)
	if last != nil && events.Type(events.HeaderValue(last.Header, "ce-type")).Terminal() {
		until = last.Seq
	}
	if !isNear(after, until) {
		return r.readSubjects(ctx, after, until, last)
	}
	control, output := events.ExecSubject(r.tenant, r.execution), events.OutSubject(r.tenant, r.execution)
	return r.s.eachNear(ctx, r.since, after, until, func(m events.Stored) error {
		if subject, _ := events.WithoutVolume(m.Subject); subject != control && (subject != output || !r.isAbout(m)) {
			return nil
		}
		return r.emit(m)
	})
}

func (r *executionReader) isAbout(m events.Stored) bool {
	return events.HeaderValue(m.Header, "ce-subject") == r.execution
}

func (r *executionReader) emit(m events.Stored) error {
	e, err := r.s.Decode(m)
	if err != nil {
		return err
	}
	return r.fn(e)
}

// readSubjects reads the events after a position and up to another one from their subjects.
func (r *executionReader) readSubjects(ctx context.Context, after, until uint64, last *events.Stored) error {
	s := r.s
	control := subjectReader{s: s, now: r.now, subject: events.ExecSubject(r.tenant, r.execution), from: after + 1, until: until, tally: tally{since: r.since}}
	if last != nil {
		control.end = last.Seq
	}
	// Several executions share the subject of output.
	output := subjectReader{s: s, now: r.now, subject: events.OutSubject(r.tenant, r.execution), from: after + 1, until: until, tally: tally{since: r.since}, wants: r.isAbout}
	end, err := s.lastMessageIn(ctx, r.now.list, output.subject)
	switch {
	case err == nil:
		output.end = end.Seq
	case !errors.Is(err, events.ErrNotFound):
		return fmt.Errorf("read the output of execution %s: %w", r.execution, err)
	}
	for {
		a, err := control.peek(ctx)
		if err != nil {
			return fmt.Errorf("read execution %s: %w", r.execution, err)
		}
		b, err := output.peek(ctx)
		if err != nil {
			return fmt.Errorf("read the output of execution %s: %w", r.execution, err)
		}
		var next events.Stored
		switch {
		case a != nil && (b == nil || a.Seq < b.Seq):
			next = control.take()
		case b != nil:
			next = output.take()
		default:
			return nil
		}
		if err := r.emit(next); err != nil {
			return err
		}
	}
}

// nearPositions is the maximum number of positions over which eachNear reads.
const nearPositions = 2000

// isNear reports whether eachNear can read the messages after a position and up to another one.
func isNear(after, until uint64) bool { return until <= after || until-after <= nearPositions }

// eachNear calls fn for all messages after a position and up to another one that isNear, in
// order. A message that cannot be read is damage. A message MUST be at until. since MUST be
// from before the caller looked it up.
//
// Messages on other subjects between the two cost less than a request by subject: to such a
// request the server answers how many messages on the subject follow, and reads the later
// blocks of the stream for it.
func (s *Ledger) eachNear(ctx, since context.Context, after, until uint64, fn func(events.Stored) error) error {
	for after < until {
		p := page{form: raw, begin: after, end: after}
		if _, _, err := s.readBatch(ctx, min(int(until-after), jet.BatchMessages), pieceBytes, &p); err != nil { //nolint:gosec // at most nearPositions
			return err
		}
		if p.end == after {
			if until <= s.Removed().UpTo() {
				return nil // removed during the reading
			}
			if err := s.jet.CheckReliable(since); err != nil {
				return err
			}
			return s.damageErrorf("position %d cannot be read", after+1)
		}
		for _, m := range p.raw {
			if m.Seq > until { // the positions before it were removed or are lost
				return nil
			}
			if err := fn(m); err != nil {
				return err
			}
		}
		after = p.end
	}
	return nil
}

// subjectReader reads the messages on a subject in pieces, up to the position until. from is
// the first position that is not read yet. The last message on the subject MUST be at end.
// A subjectReader is not safe for concurrent use.
type subjectReader struct {
	s       *Ledger
	now     *volumes
	subject string
	wants   func(events.Stored) bool // nil selects all messages
	from    uint64
	until   uint64
	end     uint64
	list    []events.Stored
	tally   tally
}

// peek returns the next message, or nil at the end.
func (r *subjectReader) peek(ctx context.Context) (*events.Stored, error) {
	for len(r.list) == 0 && r.from <= min(r.end, r.until) {
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

func (r *subjectReader) take() events.Stored {
	m := r.list[0]
	r.list[0] = events.Stored{}
	r.list = r.list[1:]
	return m
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
			if m.Seq <= min(r.end, r.until) && (r.wants == nil || r.wants(m)) {
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
