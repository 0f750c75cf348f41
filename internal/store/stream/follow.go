package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"daybook/events"
	"daybook/internal/spans"
	"daybook/internal/store/jet"
)

const (
	// pollInterval is how often a follower looks for events whose announcement it may have
	// missed because its connection broke.
	pollInterval = time.Second
	// lagPause is the interval at which a follower asks for an announced event that its
	// replica of the stream does not have yet. lagTimeout is when it gives up.
	lagPause   = 2 * time.Millisecond
	lagTimeout = 10 * time.Second
	// retryPause is how long a follower waits before it asks again after an error.
	retryPause = 200 * time.Millisecond
)

// readBytes bounds the bodies that Read and ReadRaw return, in bytes. They return at
// least one message.
const readBytes = 1 << 20

// Read returns the events at positions greater than after, oldest first: at most limit
// events and about 1 MiB. It does not wait for new events. An empty result means that
// there are none. A gap is events.ErrDamaged.
func (s *Ledger) Read(ctx context.Context, after uint64, limit int) ([]events.Event, error) {
	p, err := s.readUpTo(ctx, after, limit, decoded)
	return p.events, err
}

// ReadRaw is Read for messages as they are stored; it decodes none of them.
func (s *Ledger) ReadRaw(ctx context.Context, after uint64, limit int) ([]events.Stored, error) {
	p, err := s.readUpTo(ctx, after, limit, raw)
	return p.raw, err
}

// ReadPage is Read for readers with little memory. It returns at least one event if
// there is one, and ends once the bodies exceed maxBytes.
func (s *Ledger) ReadPage(ctx context.Context, after uint64, limit, maxBytes int) ([]events.Event, error) {
	p := page{form: decoded, begin: after, end: after}
	if _, _, err := s.readBatch(ctx, min(limit, jet.BatchMessages), maxBytes, &p); err != nil {
		return nil, err
	}
	return p.events, nil
}

func (s *Ledger) readUpTo(ctx context.Context, after uint64, limit int, form pageContent) (page, error) {
	all := page{form: form, begin: after, end: after}
	for n := 0; n < limit && all.held < readBytes; {
		p := page{form: form, begin: all.end, end: all.end}
		if _, _, err := s.readBatch(ctx, min(limit-n, jet.BatchMessages), readBytes-all.held, &p); err != nil {
			return page{}, err
		}
		got := max(len(p.events), len(p.raw))
		if got == 0 {
			break
		}
		n += got
		all.events, all.raw, all.end = append(all.events, p.events...), append(all.raw, p.raw...), p.end
		all.held += p.held
	}
	return all, nil
}

// readBatch fills an empty page with the events that follow its end, by one request: at
// most limit events and not many more than maxBytes bytes. It returns how many events
// are pending in the same volume and in total. If the next positions are recorded as
// lost, the page begins after them. If their volume is missing, that is damage.
func (s *Ledger) readBatch(ctx context.Context, limit, maxBytes int, p *page) (here, pending uint64, err error) {
	now := s.volumes()
	i := now.indexOf(p.end + 1)
	v := now.list[i]
	if v.removed != nil {
		some, left, err := s.fillFromKept(ctx, v, limit, p)
		if err != nil {
			return 0, 0, err
		}
		if some {
			return 0, left + s.lastStored.Load() - min(s.lastStored.Load(), v.last), nil
		}
		if i+1 == len(now.list) {
			// Another process has removed all volumes that this one knows.
			return 0, 0, fmt.Errorf("read after position %d: this process does not know the volumes after %d yet", p.end, v.number)
		}
		v = now.list[i+1]
	}
	lost := s.Lost()
	if next := spans.Skip(lost, p.end+1); next > p.end+1 {
		p.lost += next - 1 - p.end
		p.begin, p.end = next-1, next-1
		v = now.list[now.indexOf(next)]
	}
	if p.end+1 < v.first { // a volume is missing
		if s.volumes() == now {
			s.Reload(ctx)
		}
		if s.volumes() != now || spans.Skip(s.Lost(), p.end+1) > p.end+1 {
			return s.readBatch(ctx, limit, maxBytes, p)
		}
		return 0, 0, s.damageErrorf("the ledger has a hole: positions %d to %d cannot be read", p.end+1, v.first-1)
	}
	r := jet.Request{Seq: p.end + 1, Batch: limit, MaxBytes: maxBytes}
	here, err = s.getInOrder(ctx, v, r, func(m events.Stored) error {
		if m.Removed > 0 {
			return errRemovedMeanwhile // a kept event
		}
		if lost.Unreadable(m.Seq) {
			return errLostNext
		}
		if m.Seq != p.end+1 && p.end > p.begin && spans.Skip(lost, p.end+1) == m.Seq {
			return errLostNext
		}
		if m.Seq != p.end+1 {
			return s.damageErrorf("the ledger has a hole: position %d is followed by %d", p.end, m.Seq)
		}
		return s.add(p, m)
	})
	if jet.IsStreamGone(err) && !v.sealed && p.end == r.Seq-1 {
		// Another process may have sealed and removed it.
		if s.Reload(ctx); s.volumes() != now {
			return s.readBatch(ctx, limit, maxBytes, p)
		}
	}
	// Not for a volume without a stream: the same request would fail again, without end.
	if now, rerr := s.reloadIfGone(ctx, v, err); v.segment() == nil && err != nil && rerr == nil && now.segment() != nil { // it was archived or removed during the request
		if p.end == r.Seq-1 {
			return s.readBatch(ctx, limit, maxBytes, p)
		}
		err = errLostNext
	}
	if errors.Is(err, errRemovedMeanwhile) && p.end == r.Seq-1 {
		return s.readBatch(ctx, limit, maxBytes, p)
	}
	if errors.Is(err, errLostNext) || errors.Is(err, errRemovedMeanwhile) {
		return 0, max(s.lastStored.Load(), p.end) - p.end, nil
	}
	if err != nil {
		return 0, 0, err
	}
	if v.sealed && p.end < v.last && here == 0 && p.end == p.begin {
		if s.volumes() == now {
			s.Reload(ctx)
		}
		if s.volumes() != now { // the server may have answered while it deleted the stream
			return s.readBatch(ctx, limit, maxBytes, p)
		}
		if v.segment() == nil { // Reload may not have found the archive
			if err := s.checkHasStream(ctx, v); err != nil {
				return 0, 0, err
			}
		}
		return 0, 0, s.damageErrorf("the ledger has a hole: position %d cannot be read", p.end+1)
	}
	pending = here
	if known := s.lastStored.Load(); v.sealed && known > v.last {
		pending = known - p.end
	}
	return here, pending, nil
}

// getInOrder is getBatch for a volume with a stream or an archive. For an archive, it returns 0:
// the events are not read faster in any other way.
func (s *Ledger) getInOrder(ctx context.Context, v volume, r jet.Request, fn func(events.Stored) error) (pending uint64, err error) {
	if v.archive == nil {
		return s.getBatch(ctx, v.stream(), r, fn)
	}
	_, err = s.getBatchFromVolume(ctx, v, r, fn)
	return 0, err
}

// errLostNext ends a page before positions that are recorded as lost.
var errLostNext = errors.New("the next events are lost")

// Follow calls fn with every event at a position greater than after, in order and
// without gaps, until ctx is done or fn fails, and returns that error. last is the
// newest known position; it is the last of the batch once fn has caught up. A batch
// holds at most 1000 events and is not delayed to fill it. fn MUST NOT keep the slice
// after it returns.
//
// Follow returns events.ErrDamaged, with the position, for a gap, for an event that
// cannot be read, and if after is beyond the end of the ledger. While the server cannot
// be reached, Follow waits.
func (s *Ledger) Follow(ctx context.Context, after uint64, fn func(batch []events.Event, last uint64) error) error {
	return s.follow(ctx, after, decoded, func(p page) error { return fn(p.events, p.last) })
}

// FollowRaw is Follow for messages as they are stored. It decodes none of them, so a
// message that is no event does not end it.
func (s *Ledger) FollowRaw(ctx context.Context, after uint64, fn func(batch []events.Stored, last uint64) error) error {
	return s.follow(ctx, after, raw, func(p page) error { return fn(p.raw, p.last) })
}

func (s *Ledger) follow(ctx context.Context, after uint64, form pageContent, fn func(page) error) error {
	a, err := s.listen()
	if err != nil {
		return fmt.Errorf("follow the ledger: %w", err)
	}
	defer a.stop()
	end, err := s.LastSeq(ctx)
	for err != nil {
		if ctx.Err() == nil { // otherwise the reader has left
			s.jet.Warn(ctx, "following the ledger", err)
		}
		if werr := jet.Wait(ctx, retryPause); werr != nil {
			return werr
		}
		end, err = s.LastSeq(ctx)
	}
	if after > end {
		return s.damageErrorf("the ledger ends at position %d, but %d was read from it before", end, after)
	}
	a.observe(end)

	ctx, cancel := context.WithCancel(ctx)
	pages := make(chan page, 1)
	ended := make(chan error, 1)
	go func() { ended <- s.readPages(ctx, after, form, a, pages) }()
	defer func() {
		cancel()
		<-ended //nolint:errcheck // a return before it ended has an error of its own
	}()
	for {
		select {
		case p := <-pages:
			if err := fn(p); err != nil {
				return err
			}
		case err := <-ended:
			ended <- err
			// Events that were read before the damage are valid.
			select {
			case p := <-pages:
				if err := fn(p); err != nil {
					return err
				}
			default:
			}
			return err
		}
	}
}

// pageContent is the set of forms in which a follower takes each event: one or both.
type pageContent uint8

const (
	decoded pageContent = 1 << iota
	raw
)

// page is a batch of events for the function of a follower.
type page struct {
	form   pageContent
	events []events.Event  // if decoded
	raw    []events.Stored // if raw
	// begin is the position before the first event in the page, and end the position of
	// the last; there is no gap between them. last is the newest known position.
	begin, end, last uint64
	// skip is the number of removed positions before the next event, and removed the last
	// position of the removed volumes. If skip is set, the page does have a gap.
	skip, removed uint64
	// lost is the number of positions before the next event that are recorded as lost.
	lost uint64
	// held is the size of the bodies in bytes.
	held int
}

// newPage returns an empty page after a position, with capacity for size events.
func newPage(form pageContent, after uint64, size int) page {
	p := page{form: form, begin: after, end: after}
	if form&decoded != 0 {
		p.events = make([]events.Event, 0, size)
	}
	if form&raw != 0 {
		p.raw = make([]events.Stored, 0, size)
	}
	return p
}

// add appends a message. It MUST be the next one.
func (s *Ledger) add(p *page, m events.Stored) error {
	if p.form&decoded != 0 {
		e, err := s.Decode(m)
		if err != nil {
			return err
		}
		e.RemovedBefore, e.Removed, e.LostBefore = p.skip, max(p.removed, m.Removed), p.lost
		p.events = append(p.events, e)
	}
	if p.form&raw != 0 {
		m.RemovedBefore, m.Removed = p.skip, max(p.removed, m.Removed)
		p.raw = append(p.raw, m)
	}
	p.end, p.skip, p.lost, p.removed = m.Seq, 0, 0, 0
	p.held += len(m.Body)
	return nil
}

// readPages reads ahead of the function that receives the pages, so that the server, the
// decoder and the function work concurrently.
func (s *Ledger) readPages(ctx context.Context, after uint64, form pageContent, a *appendNotifier, pages chan<- page) error {
	var behind time.Time // since when an announced event is missing; zero if none is
	var looked time.Time // when the volumes were last refreshed because of a missing event
	size := 64
	for {
		p := newPage(form, after, size)
		here, pending, err := s.readNext(ctx, a, &p)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		some := p.end > p.begin && max(len(p.events), len(p.raw)) > 0
		if some {
			size, after = max(len(p.events), len(p.raw)), p.end
			behind = time.Time{}
			a.observe(after)
			p.last = max(after+pending, after)
			select {
			case pages <- p:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		switch {
		case errors.Is(err, events.ErrDamaged):
			return err
		case err != nil:
			if ctx.Err() == nil { // otherwise the reader has left
				s.jet.Warn(ctx, "following the ledger", err, "after", after)
			}
			err = jet.Wait(ctx, retryPause)
		case here > bulkReadThreshold:
			after, err = s.bulkRead(ctx, after, after+here, form, pages)
		case some:
			// There may be more.
		case after < a.newest.Load():
			if behind.IsZero() {
				behind, looked = time.Now(), time.Time{}
			}
			if time.Since(looked) > pollInterval {
				looked = time.Now()
				s.refreshVolumes(ctx)
				if s.jet.Starved() != nil {
					behind = looked // the server cannot open its files now
				}
			}
			if time.Since(behind) > lagTimeout {
				return s.damageErrorf("position %d was recorded but cannot be read; the ledger ends at %d", after+1, after)
			}
			err = jet.Wait(ctx, lagPause)
		default:
			var announced bool
			if announced, err = a.wait(ctx); !announced && err == nil {
				a.isUncertain = true
				s.refreshVolumes(ctx)
			}
		}
		if err != nil {
			return err
		}
	}
}

// readNext fills an empty page with the events that follow its end: with events that this
// process appended or, if another event comes first, with a batch of the stream. The results
// are those of readBatch. The page stays empty if no event is known to follow.
func (s *Ledger) readNext(ctx context.Context, a *appendNotifier, p *page) (here, pending uint64, err error) {
	list, later := a.appended.take(p.end)
	if len(list) == 0 && later && s.opts.Exclusive {
		// The event before was stored by this process too, which is about to receive the
		// acknowledgement.
		if err := a.waitBriefly(ctx); err != nil {
			return 0, 0, err
		}
		list, _ = a.appended.take(p.end)
	}
	for _, m := range list {
		if err := s.add(p, m); err != nil {
			return 0, 0, err
		}
	}
	newest := a.newest.Load()
	switch {
	case len(list) > 0:
		return 0, max(newest, p.end) - p.end, nil
	case s.opts.Exclusive && newest <= p.end && !a.isUncertain:
		return 0, 0, nil
	}
	a.isUncertain = false
	return s.readBatch(ctx, jet.BatchMessages, pageBytes, p)
}

// refreshVolumes looks for a volume that another process opened. It may miss one. The
// follower calls it again after pollInterval.
func (s *Ledger) refreshVolumes(ctx context.Context) {
	if s.jet.Options.ReadExisting {
		return
	}
	// The holder of volumesMu updates the list itself. A rotation waits for its
	// signature, and the signer waits for this follower, so the follower must not wait
	// for the rotation.
	if !s.volumesMu.TryLock() {
		return
	}
	defer s.volumesMu.Unlock()
	if err := s.refreshLocked(ctx); err != nil && ctx.Err() == nil {
		s.jet.Warn(ctx, "cannot look for the next volume", err)
	}
}
