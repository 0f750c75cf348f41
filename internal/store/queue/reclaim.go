package queue

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"sync"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
	"daybook/internal/store/jet"
	"daybook/internal/store/stream"
)

const (
	// maxReclaim bounds the positions that are searched for requests of an earlier
	// process.
	maxReclaim = 200_000
	// maxReclaims bounds the tenants whose requests are searched for concurrently.
	maxReclaims = 4
)

// inFlight is a consumer with requests that an earlier process had in flight.
type inFlight struct {
	v    stream.LiveVolume
	info *natsjs.ConsumerInfo
}

// reclaimAll returns the in-flight requests of an earlier process, a few tenants at a
// time. A tenant gets slots once its requests are returned. Other tenants do not wait
// for that.
func (c *poolConsumer) reclaimAll(ctx context.Context, left map[string][]inFlight) {
	limit := make(chan struct{}, maxReclaims)
	var tenants sync.WaitGroup
	defer tenants.Wait()
	for tenant, list := range left {
		limit <- struct{}{}
		tenants.Go(func() {
			defer func() { <-limit }()
			for _, w := range list {
				if err := c.nakOutstanding(ctx, tenant, w); err != nil && ctx.Err() == nil {
					c.work.jet.Options.Logger.WarnContext(ctx, "requests of an earlier process are delivered again only after their ack deadline", "pool", c.pool, "tenant", tenant, "volume", w.v.Number, "err", err)
				}
			}
			c.mu.Lock()
			n := max(c.reclaiming[tenant], 1)
			delete(c.reclaiming, tenant)
			c.sched.SetWaiting(tenant, n, time.Now())
			// The consumer may count returned requests with a delay.
			a := c.announced[tenant]
			c.announced[tenant] = announcements{generation: a.generation + 1, owed: max(a.owed, n)}
			c.mu.Unlock()
			c.schedule()
		})
	}
}

// nakOutstanding returns the requests that a consumer has in flight, except turns that
// wait for an earlier turn: the end of that turn releases them. The state of the
// consumer gives the unacknowledged requests only as a range of positions. A nak for a
// position that is not in flight has no effect.
func (c *poolConsumer) nakOutstanding(ctx context.Context, tenant string, w inFlight) error {
	s := c.work
	first, last := max(w.info.AckFloor.Stream+1, w.v.First), w.info.Delivered.Stream
	switch {
	case last < first:
		return nil
	case last-first >= maxReclaim:
		return fmt.Errorf("positions %d to %d are too many to search", first, last)
	}
	positions, err := c.reclaimable(ctx, tenant, w.v, first, last)
	if err != nil {
		return err
	}
	for _, seq := range positions {
		if err := s.jet.WorkConn.Publish(workReply(w.info, seq), nak(0)); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.jet.Options.TryWait) // the flush requires a deadline
	defer cancel()
	return s.jet.WorkConn.FlushWithContext(ctx)
}

type queuedTurn struct {
	position  uint64
	execution string
}

// reclaimable returns the positions of the requests of a tenant from first to last,
// both included, that do not wait for an earlier turn. It includes unreadable requests.
func (c *poolConsumer) reclaimable(ctx context.Context, tenant string, v stream.LiveVolume, first, last uint64) (positions []uint64, err error) {
	turns := map[string][]queuedTurn{} // by session, in order
	for from := first; from <= last; {
		var got uint64
		r := jet.Request{Seq: from, NextBySubject: stream.StoredSubject(v.Number, events.RunSubjects(tenant, c.pool)), Batch: jet.BatchMessages, MaxBytes: jet.BatchBytes}
		_, err := c.work.ledger.GetBatchIn(ctx, v.Number, r, func(m events.Stored) error {
			if got = m.Seq; got > last {
				return nil
			}
			e, err := c.work.ledger.Decode(m)
			if d, ok := e.Data.(*events.ExecutionRequested); err == nil && ok && d.Turn != nil {
				turns[d.Turn.SessionID] = append(turns[d.Turn.SessionID], queuedTurn{got, d.ExecutionID})
			} else {
				positions = append(positions, got)
			}
			return nil
		})
		if err != nil && !errors.Is(err, events.ErrNotFound) {
			return nil, fmt.Errorf("read the requests after position %d: %w", from-1, err)
		}
		if got == 0 {
			break
		}
		from = got + 1
	}
	known := true
	for _, list := range turns {
		due := len(list)
		if known { // after a failure the server is not asked for further sessions
			due, known = c.dueTurns(ctx, tenant, list)
		}
		for _, turn := range list[:due] {
			positions = append(positions, turn.position)
		}
	}
	return positions, nil
}

// dueTurns returns how many turns of a session do not wait for an earlier one. list is
// in order; the turns up to and including the first one that has not ended are due. If a
// turn ended before an earlier one, the result may be too large. That does no harm: the
// runner returns a turn that has to wait. If the server cannot tell, all are due and
// known is false.
func (c *poolConsumer) dueTurns(ctx context.Context, tenant string, list []queuedTurn) (due int, known bool) {
	if len(list) == 1 {
		return 1, true
	}
	known = true
	i := sort.Search(len(list), func(i int) bool {
		if !known {
			return true
		}
		ended, err := c.work.hasEnded(ctx, tenant, list[i])
		known = err == nil
		return known && !ended
	})
	if !known {
		return len(list), false
	}
	return min(i+1, len(list)), true
}

// hasEnded reports whether the newest event of an execution ends it.
func (s *Queue) hasEnded(ctx context.Context, tenant string, t queuedTurn) (bool, error) {
	m, err := s.ledger.LastFrom(ctx, t.position, events.ExecSubject(tenant, t.execution))
	if errors.Is(err, events.ErrNotFound) {
		return false, nil // it was not started
	}
	if err != nil {
		return false, err
	}
	e, err := s.ledger.Decode(m)
	return err == nil && e.Type.Terminal(), err
}
