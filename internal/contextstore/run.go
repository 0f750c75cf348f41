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
	// maxFlushers is the number of contexts that are recorded concurrently. The ledger
	// syncs concurrent appends together.
	maxFlushers = 32
	// finalFlushTimeout bounds the flush at shutdown.
	finalFlushTimeout = 10 * time.Second
	// sweepBatch is the number of idle contexts per query.
	sweepBatch = 500
)

// Run records notes, expires idle contexts and bounds the memory until ctx is done.
// Then it records the remaining notes within 10 s and returns nil.
func (s *Store) Run(ctx context.Context) error {
	flush, sweep := time.NewTicker(flushInterval), time.NewTicker(sweepInterval)
	defer flush.Stop()
	defer sweep.Stop()
	for {
		select {
		case <-flush.C:
			s.Flush(ctx)
		case <-sweep.C:
			if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
				s.opts.Logger.WarnContext(ctx, "sweep of idle contexts failed", "err", err)
			}
		case <-ctx.Done():
			last, stop := context.WithTimeout(context.WithoutCancel(ctx), finalFlushTimeout)
			defer stop()
			s.Flush(last)
			return nil
		}
	}
}

// Flush records the notes of all contexts. Notes that cannot be recorded are kept for
// the next flush.
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
	var why atomic.Pointer[error] // one of the errors, for the log
	for range min(maxFlushers, len(dirty)) {
		wg.Go(func() {
			for e := range dirty {
				if ctx.Err() != nil {
					return
				}
				if !s.acquireExisting(e) {
					continue
				}
				flushing, stop := context.WithTimeout(ctx, callTimeout)
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
		s.warnUnrecorded(ctx, int(n), *why.Load())
	}
}

// sweep expires the contexts that are idle for longer than IdleTTL, and evicts contexts
// if the Go heap is too large.
func (s *Store) sweep(ctx context.Context) error {
	s.evictUnderPressure()
	now := s.opts.Now()
	since := now.Add(-s.opts.IdleTTL)
	if err := s.sweepHeld(ctx, now, since); err != nil {
		return err
	}
	// Expire the contexts that are not in memory, in batches, until none is left or none
	// can be expired.
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
		// Wait also after the last batch: the next sweep must not find these contexts
		// again.
		if err := s.opts.Views.Wait(ctx, last); err != nil {
			return err
		}
		if last == 0 || len(list) < sweepBatch {
			return nil
		}
	}
}

// sweepHeld expires the idle contexts that are in memory, and evicts them.
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

// sweepEntry expires an entry if it is idle. The caller must hold e.mu.
func (s *Store) sweepEntry(ctx context.Context, e *entry, now time.Time) error {
	ctx, stop := context.WithTimeout(ctx, callTimeout)
	defer stop()
	err := s.flush(ctx, e, true)
	if err == nil {
		err = s.load(ctx, e)
	}
	if err == nil && s.isIdle(e, now) {
		err = s.expire(ctx, e)
	}
	return err
}

// expireStored expires a context that is not in memory. It returns 0 if there was
// nothing to do.
func (s *Store) expireStored(ctx context.Context, c projections.IdleContext, since time.Time) (uint64, error) {
	if s.heldSince(c.Key, since) {
		return 0, nil
	}
	var position uint64
	last, err := s.opts.Log.Last(ctx, events.ContextSubject(c.Tenant, c.Key))
	switch {
	case err == nil:
		position = last.Seq
	case !errors.Is(err, events.ErrNotFound):
		return 0, err
	}
	d := &events.ContextExpired{ContextRef: c.ContextRef, LastUse: instant(c.UsedAt), IdleSecs: int64(s.opts.IdleTTL / time.Second)}
	seq, err := s.opts.Log.Append(ctx, events.New(c.Tenant, s.opts.Now(), d), int64(position))
	if errors.Is(err, events.ErrConflict) {
		return 0, nil // another process has just edited it
	}
	return seq, err
}

// heldSince reports whether the context is in memory and was used since a time.
func (s *Store) heldSince(key string, since time.Time) bool {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	e := s.cache.entries[key]
	return e != nil && !e.usedAt.Before(since)
}
