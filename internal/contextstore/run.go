package contextstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"daybook/events"
	"daybook/projections"
)

const (
	// flushers is how many contexts are recorded at once: the disk takes them
	// together.
	flushers = 32
	// lastFlush bounds the recording at the end.
	lastFlush = 10 * time.Second
	// sweepBatch is how many contexts expire at a time.
	sweepBatch = 500
)

// Run records what was noted, lets contexts expire and keeps the memory within
// bounds, until ctx is done. Then it records what is left.
func (s *Store) Run(ctx context.Context) error {
	flush, sweep := time.NewTicker(flushInterval), time.NewTicker(sweepInterval)
	defer flush.Stop()
	defer sweep.Stop()
	for {
		select {
		case <-flush.C:
			s.Flush(ctx)
		case <-sweep.C:
			if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
				s.opts.Logger.WarnContext(ctx, "look for idle contexts", "err", err)
			}
		case <-ctx.Done():
			last, stop := context.WithTimeout(context.WithoutCancel(ctx), lastFlush)
			defer stop()
			s.Flush(last)
			return nil
		}
	}
}

// Flush records what was noted in all contexts. What cannot be is kept for the
// next time.
func (s *Store) Flush(ctx context.Context) {
	s.cache.mu.Lock()
	dirty := make(chan *entry, len(s.cache.dirty))
	for e := range s.cache.dirty {
		dirty <- e
	}
	s.cache.mu.Unlock()
	close(dirty)
	var wg sync.WaitGroup
	var failed atomic.Int64
	var why atomic.Pointer[error] // one of them
	for range min(flushers, len(dirty)) {
		wg.Go(func() {
			for e := range dirty {
				if ctx.Err() != nil {
					return
				}
				if !s.acquireExisting(e) {
					continue
				}
				flushing, stop := context.WithTimeout(ctx, answerWait)
				if err := s.flush(flushing, e, false); err != nil {
					failed.Add(1)
					why.CompareAndSwap(nil, &err)
				}
				stop()
				s.release(e)
			}
		})
	}
	wg.Wait()
	if n := failed.Load(); n > 0 && ctx.Err() == nil {
		s.unrecorded(ctx, int(n), *why.Load())
	}
}

// Sweep lets contexts expire that nobody has used for long, and keeps the memory
// within bounds.
func (s *Store) Sweep(ctx context.Context) error {
	s.evictUnderPressure()
	now := s.opts.Now()
	since := now.Add(-s.opts.IdleTTL)
	if err := s.sweepHeld(ctx, now, since); err != nil {
		return err
	}
	// The others: few at a time, until there are none or none can go.
	for {
		list, err := s.opts.Views.IdleContexts(ctx, since.Add(-time.Millisecond), sweepBatch)
		if err != nil {
			return err
		}
		var last uint64
		for _, c := range list {
			seq, err := s.expireStored(ctx, c, since)
			if err != nil {
				return err
			}
			last = max(last, seq)
		}
		// Also after the last few: the next sweep must not find them as they were.
		if err := s.opts.Views.Wait(ctx, last); err != nil {
			return err
		}
		if last == 0 || len(list) < sweepBatch {
			return nil
		}
	}
}

// sweepHeld has those expire that are held in memory, and drops them.
func (s *Store) sweepHeld(ctx context.Context, now, since time.Time) error {
	var unused []*entry
	s.cache.mu.Lock()
	for at := s.cache.order.Back(); at != nil; at = at.Prev() {
		if e := at.Value.(*entry); e.users == 0 && e.usedAt.Before(since) {
			unused = append(unused, e)
		}
	}
	s.cache.mu.Unlock()
	for _, e := range unused {
		if !s.acquireExisting(e) {
			continue
		}
		err := s.sweepEntry(ctx, e, now)
		s.release(e)
		if err != nil {
			return err
		}
		s.cache.mu.Lock()
		if e.usedAt.Before(since) && !e.running {
			s.cache.evict(e, EvictedIdle)
		}
		s.cache.mu.Unlock()
	}
	return nil
}

// sweepEntry has an entry expire if it was idle for too long. e.mu is held.
func (s *Store) sweepEntry(ctx context.Context, e *entry, now time.Time) error {
	ctx, stop := context.WithTimeout(ctx, answerWait)
	defer stop()
	err := s.flush(ctx, e, true)
	if err == nil {
		err = s.load(ctx, e)
	}
	if err == nil && s.idle(e, now) {
		err = s.expire(ctx, e)
	}
	return err
}

// expireStored has a context expire that is not held in memory. It returns 0
// where there was nothing to do.
func (s *Store) expireStored(ctx context.Context, c projections.IdleContext, since time.Time) (uint64, error) {
	if s.heldSince(c.Key, since) {
		return 0, nil
	}
	var position uint64
	last, err := s.opts.Log.LastContext(ctx, c.Tenant, c.Key)
	switch {
	case err == nil:
		position = last.Seq
	case !errors.Is(err, events.ErrNotFound):
		return 0, err
	}
	d := &events.ContextExpired{ContextRef: c.ContextRef, LastUse: instant(c.UsedAt), IdleSecs: int64(s.opts.IdleTTL / time.Second)}
	seq, err := s.append(ctx, c.Tenant, d, int64(position))
	if errors.Is(err, events.ErrConflict) {
		return 0, nil // somebody has just set something in it
	}
	return seq, err
}

// heldSince reports whether a context is held that was used since a time.
func (s *Store) heldSince(key string, since time.Time) bool {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	e := s.cache.entries[key]
	return e != nil && !e.usedAt.Before(since)
}
