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
	// maxReclaim bounds how many positions are looked through for the work of an
	// earlier process.
	maxReclaim = 200_000
	// maxReclaims bounds the tenants whose work is looked through at the same time.
	maxReclaims = 4
)

// inFlight is a consumer with requests that an earlier process had in flight.
type inFlight struct {
	v    stream.LiveVolume
	info *natsjs.ConsumerInfo
}

// reclaimAll has the work of an earlier process delivered again, some tenants at a
// time. A tenant gets slots once its work is given back; the others get theirs
// meanwhile.
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
					c.work.jet.Options.Logger.WarnContext(ctx, "work of an earlier process is only taken over when its time is up", "pool", c.pool, "tenant", tenant, "volume", w.v.Number, "err", err)
				}
			}
			c.mu.Lock()
			n := max(c.reclaiming[tenant], 1)
			delete(c.reclaiming, tenant)
			c.sched.SetWaiting(tenant, n, time.Now())
			// The consumer may notice what is given back a little after it is asked.
			a := c.announced[tenant]
			c.announced[tenant] = announced{generation: a.generation + 1, owed: max(a.owed, n)}
			c.mu.Unlock()
			c.schedule()
		})
	}
}

// nakOutstanding has what a consumer has in flight delivered again, except for turns that
// still wait: the end of a turn before releases them. The consumer's state names what
// was delivered and not acknowledged only as a range of positions; giving back a
// position that is not in flight does nothing.
func (c *poolConsumer) nakOutstanding(ctx context.Context, tenant string, w inFlight) error {
	s := c.work
	first, last := max(w.info.AckFloor.Stream+1, w.v.First), w.info.Delivered.Stream
	switch {
	case last < first:
		return nil
	case last-first >= maxReclaim:
		return fmt.Errorf("positions %d to %d are too many to look through", first, last)
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
	ctx, cancel := context.WithTimeout(ctx, s.jet.Options.TryWait) // the flush insists on one
	defer cancel()
	return s.jet.WorkConn.FlushWithContext(ctx)
}

// queuedTurn is a request that has a turn.
type queuedTurn struct {
	position  uint64
	execution string
}

// reclaimable lists the requests of a tenant in a range of positions that do not
// wait for a turn before them. A request that cannot be read is one of them.
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
		if known { // else the server is not asked for each session again
			due, known = c.dueTurns(ctx, tenant, list)
		}
		for _, turn := range list[:due] {
			positions = append(positions, turn.position)
		}
	}
	return positions, nil
}

// dueTurns returns how many turns of a session, which are in order, may not wait for
// another one: those up to the first whose execution has not ended. A turn that ended
// before the turns ahead of it is no harm: what follows a turn that has not ended
// always waits. If it cannot be found out, all may be due, and known is false.
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
