package stream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"daybook/events"
	"daybook/internal/store/jet"
)

const (
	// pollEvery is how often a follower looks for events whose announcement it
	// may have missed, which happens when its connection breaks.
	pollEvery = time.Second
	// lagPause is how long a follower waits for the copy of the stream it reads
	// from to have an event that was announced; lagWait is when it gives up.
	lagPause = 2 * time.Millisecond
	lagWait  = 10 * time.Second
	// retryPause is how long a follower waits when the server cannot answer.
	retryPause = 200 * time.Millisecond
)

// readBytes is how much Read and ReadRaw return at most, in bytes of bodies, but at
// least one message: a reader in pieces holds that much.
const readBytes = 1 << 20

// Read returns events stored after a position, oldest first, up to limit and up to
// 1 MiB of them: what exists now, without waiting for more. Only an empty answer
// says that there are none. A hole is events.ErrDamaged.
func (s *Ledger) Read(ctx context.Context, after uint64, limit int) ([]events.Event, error) {
	p, err := s.readUpTo(ctx, after, limit, decoded)
	return p.events, err
}

// ReadRaw is Read for messages as the ledger holds them, none of them decoded.
func (s *Ledger) ReadRaw(ctx context.Context, after uint64, limit int) ([]events.Stored, error) {
	p, err := s.readUpTo(ctx, after, limit, raw)
	return p.raw, err
}

// ReadPage is Read for a reader that holds little in memory: it returns at least
// one event if there is one, and ends once their bodies exceed maxBytes.
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

// readBatch fills an empty page with what one request brings of the events after
// its end, at most limit and not many more than maxBytes bytes, and returns how many are still to come in the same volume, and in all.
// Where a hole that is on record follows, the page begins behind it.
func (s *Ledger) readBatch(ctx context.Context, limit, maxBytes int, p *page) (here, pending uint64, err error) {
	now := s.volumes()
	i := now.indexOf(p.end + 1)
	v := now.list[i]
	if v.removed != nil {
		some, left, err := s.readKept(v, limit, p)
		if err != nil {
			return 0, 0, err
		}
		if some {
			return 0, left + s.last.Load() - min(s.last.Load(), v.last), nil
		}
		if i+1 == len(now.list) {
			// Another process has removed all volumes that are known here.
			return 0, 0, fmt.Errorf("read after position %d: the volumes after %d are not known here yet", p.end, v.number)
		}
		v = now.list[i+1]
	}
	lost := s.Lost()
	if next := lost.Skip(p.end + 1); next > p.end+1 {
		p.lost += next - 1 - p.end
		p.begin, p.end = next-1, next-1
		v = now.list[now.indexOf(next)]
	}
	if p.end+1 < v.first {
		// What is missing between two volumes was accepted when the later was opened.
		p.begin, p.end = v.first-1, v.first-1
	}
	r := jet.Request{Seq: p.end + 1, Batch: limit, MaxBytes: maxBytes}
	here, err = s.getBatch(ctx, v.stream(), r, func(m events.Stored) error {
		if lost.Unreadable(m.Seq) {
			return errLostNext
		}
		if m.Seq != p.end+1 && p.end > p.begin && lost.Skip(p.end+1) == m.Seq {
			return errLostNext
		}
		if m.Seq != p.end+1 {
			return s.damageErrorf("the ledger has a hole: position %d is followed by %d", p.end, m.Seq)
		}
		return s.add(p, m)
	})
	if jet.IsStreamGone(err) && !v.sealed && p.end == r.Seq-1 {
		// Perhaps another process has sealed and removed it.
		if s.refreshRemovals(ctx); s.volumes() != now {
			return s.readBatch(ctx, limit, maxBytes, p)
		}
	}
	if v, _ := s.reloadIfRemoved(ctx, v, err); v.removed != nil && p.end == r.Seq-1 {
		return s.readBatch(ctx, limit, maxBytes, p) // it was removed under our hands
	}
	if errors.Is(err, errLostNext) {
		return 0, max(s.last.Load(), p.end) - p.end, nil
	}
	if err != nil {
		return 0, 0, err
	}
	if v.sealed && p.end < v.last && here == 0 && p.end == p.begin {
		return 0, 0, s.damageErrorf("the ledger has a hole: position %d cannot be read", p.end+1)
	}
	pending = here
	if known := s.last.Load(); v.sealed && known > v.last {
		pending = known - p.end
	}
	return here, pending, nil
}

// errLostNext ends a page before positions that are on record as lost.
var errLostNext = errors.New("the next events are lost")

// Follow calls fn with every event after a position, in order and without
// holes, until ctx is done or fn fails; it returns that error. last is the
// position of the newest event known: the batch's own once fn has caught up.
// Batches hold at most 1000 events and are never held back to fill; the slice
// is fn's until it returns.
//
// A hole in the positions, an event that cannot be read, and a position beyond
// the end of the ledger are events.ErrDamaged, naming the place. An unreachable
// server is waited for.
func (s *Ledger) Follow(ctx context.Context, after uint64, fn func(batch []events.Event, last uint64) error) error {
	return s.follow(ctx, after, decoded, func(p page) error { return fn(p.events, p.last) })
}

// FollowRaw is Follow for messages as the ledger holds them: none of them is
// decoded, so that one that is no event does not end it.
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
		if ctx.Err() == nil { // else the reader has left
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
		<-ended //nolint:errcheck // who returned before it ended has an error of their own
	}()
	for {
		select {
		case p := <-pages:
			if err := fn(p); err != nil {
				return err
			}
		case err := <-ended:
			ended <- err
			// What was read before the damage is still good.
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

// pageContent is what a follower wants of each event, one or both.
type pageContent uint8

const (
	decoded pageContent = 1 << iota
	raw
)

// page is a batch on its way to the function that follows.
type page struct {
	form   pageContent
	events []events.Event  // if decoded
	raw    []events.Stored // if raw
	// begin is the position before that of the first event in the page, end that of
	// the last, without a hole between them; last that of the newest known.
	begin, end, last uint64
	// skip is how many positions before the next event were removed, and removed up to
	// where volumes were. Behind such there is a hole in the page, after all.
	skip, removed uint64
	// lost is how many before the next event are on record as lost.
	lost uint64
	// held is what the bodies of the messages take.
	held int
}

// newPage makes room for size events after a position.
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

// add appends a message, which must be the next one.
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
		m.Skips, m.Removed = p.skip, max(p.removed, m.Removed)
		p.raw = append(p.raw, m)
	}
	p.end, p.skip, p.lost, p.removed = m.Seq, 0, 0, 0
	p.held += len(m.Body)
	return nil
}

// readPages reads ahead of the function that follows, so that the server, the
// decoding and that function work at the same time.
func (s *Ledger) readPages(ctx context.Context, after uint64, form pageContent, a *appendNotifier, pages chan<- page) error {
	var behind time.Time // since when an announced event could not be read
	size := 64
	for {
		p := newPage(form, after, size)
		here, pending, err := s.readBatch(ctx, jet.BatchMessages, pageBytes, &p)
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
			if ctx.Err() == nil { // else the reader has left
				s.jet.Warn(ctx, "following the ledger", err, "after", after)
			}
			err = jet.Wait(ctx, retryPause)
		case here > bulkReadThreshold:
			after, err = s.bulkRead(ctx, after, after+here, form, pages)
		case some:
			// Perhaps there is more.
		case after < a.newest.Load():
			if behind.IsZero() {
				behind = time.Now()
				s.refreshVolumes(ctx)
			}
			if time.Since(behind) > lagWait {
				return s.damageErrorf("position %d was recorded but cannot be read; the ledger ends at %d", after+1, after)
			}
			err = jet.Wait(ctx, lagPause)
		default:
			var told bool
			if told, err = a.wait(ctx); !told && err == nil {
				s.refreshVolumes(ctx)
			}
		}
		if err != nil {
			return err
		}
	}
}

// refreshVolumes finds a volume that another process opened. Whoever calls it
// will look again.
func (s *Ledger) refreshVolumes(ctx context.Context) {
	if s.jet.Options.ReadExisting {
		return
	}
	// The holder of turning changes the list itself. A sealing waits for its signature,
	// and the signer for this follower: it must not wait for the sealing.
	if !s.volumesMu.TryLock() {
		return
	}
	defer s.volumesMu.Unlock()
	if err := s.refreshLocked(ctx); err != nil && ctx.Err() == nil {
		s.jet.Warn(ctx, "looking for the next volume", err)
	}
}

// appendNotifier tells a follower that there are new events. It rests on the
// stream's republishing, which may miss some but never announces what was
// refused.
type appendNotifier struct {
	sub    *nats.Subscription
	newest atomic.Uint64
	wake   chan struct{}
}

func (s *Ledger) listen() (*appendNotifier, error) {
	a := &appendNotifier{wake: make(chan struct{}, 1)}
	var err error
	a.sub, err = s.jet.Conn.Subscribe(accepted, func(m *nats.Msg) {
		if seq, err := strconv.ParseUint(jet.HeaderValue(m.Header, jet.HeaderSequence), 10, 64); err == nil {
			if _, ok := events.VolumeOf(jet.HeaderValue(m.Header, jet.HeaderStream)); !ok {
				return
			}
			a.observe(seq)
			select {
			case a.wake <- struct{}{}:
			default:
			}
		}
	})
	return a, err
}

func (a *appendNotifier) observe(seq uint64) {
	for old := a.newest.Load(); seq > old; old = a.newest.Load() {
		if a.newest.CompareAndSwap(old, seq) {
			return
		}
	}
}

// wait returns when there may be something new, and whether it was told so.
func (a *appendNotifier) wait(ctx context.Context) (told bool, err error) {
	t := time.NewTimer(pollEvery)
	defer t.Stop()
	select {
	case <-a.wake:
		return true, nil
	case <-t.C:
		return false, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// stop ends the subscription; it fails only when the connection is gone.
func (a *appendNotifier) stop() { _ = a.sub.Unsubscribe() }
