package stream

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"daybook/events"
	"daybook/internal/resources/exhausted"
	"daybook/internal/store/jet"
)

// tailBytes bounds the bodies that a SharedTail keeps for followers that are behind, in
// bytes.
const tailBytes = 16 << 20

// SharedTail reads the newest part of the ledger once for several followers. No
// follower delays another: a follower that is too far behind, or has not caught up yet,
// reads the ledger itself until it has caught up.
//
// Followers are served while Run runs. A SharedTail is safe for concurrent use.
type SharedTail struct {
	s     *Ledger
	limit int // maximum of size
	// sweepAge, sweepInterval and sweepBytes are the constants, except in tests.
	sweepAge, sweepInterval time.Duration
	sweepBytes              int64

	mu sync.Mutex
	// pages hold the events after begin up to and including end, in order, with no gaps
	// but recorded ones. size is the size of their bodies in bytes.
	pages            []page
	begin, end, last uint64
	size             int
	read             int64  // size in bytes of all bodies since Run
	swept            uint64 // last position that was swept, 0 before the first sweep
	running          bool
	err              error                    // result of Run
	positions        map[*tailFollower]uint64 // position of each follower that is served from pages
	changed          chan struct{}            // closed and replaced when an event is added
}

// tailFollower is a follower of a SharedTail.
type tailFollower struct{ form pageContent }

// NewTail returns a SharedTail. It reads nothing before Run.
func (s *Ledger) NewTail() *SharedTail {
	return &SharedTail{s: s, limit: tailBytes, sweepAge: sweepAge, sweepInterval: sweepInterval, sweepBytes: sweepBytes, positions: map[*tailFollower]uint64{}, changed: make(chan struct{})}
}

// Run reads the events at positions greater than after for the followers, until ctx is
// done or reading fails. If a resource such as descriptors runs out, it continues when it
// is available again. The followers receive the same error. The caller MUST call Run
// once.
func (t *SharedTail) Run(ctx context.Context, after uint64) error {
	t.mu.Lock()
	t.begin, t.end, t.running = after, after, true
	t.wake()
	t.mu.Unlock()
	sweeping, stop := context.WithCancel(ctx)
	var sweeper sync.WaitGroup
	if t.s.opts.Exclusive { // an outside server has memory of its own
		sweeper.Go(func() { t.sweep(sweeping) })
	}
	defer sweeper.Wait()
	defer stop()
	push := func(p page) error {
		t.push(p)
		after = p.end
		return nil
	}
	err := t.s.follow(ctx, after, decoded|raw, push)
	for exhausted.Is(err) && ctx.Err() == nil { // otherwise the followers get this error each time
		t.s.jet.Warn(ctx, "following the ledger", err, "after", after)
		if werr := jet.Wait(ctx, retryPause); werr != nil {
			err = werr
			break
		}
		err = t.s.follow(ctx, after, decoded|raw, push)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = err
	t.wake()
	return err
}

// The caller must hold mu.
func (t *SharedTail) wake() {
	close(t.changed)
	t.changed = make(chan struct{})
}

func (t *SharedTail) push(p page) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pages = append(t.pages, p)
	t.size += p.bytes()
	t.read += int64(p.bytes())
	t.end, t.last = p.end, max(t.last, p.last)
	for t.size > t.limit && len(t.pages) > 1 {
		t.drop()
	}
	t.trim()
	t.wake()
}

func (p page) bytes() int {
	n := 0
	for i := range p.raw {
		n += len(p.raw[i].Body)
	}
	return n
}

// drop removes the oldest page. The caller must hold mu.
func (t *SharedTail) drop() {
	t.begin, t.size = t.pages[0].end, t.size-t.pages[0].bytes()
	t.pages[0] = page{}
	t.pages = t.pages[1:]
}

// trim removes the pages that every follower has received. The caller must hold mu.
func (t *SharedTail) trim() {
	needed := uint64(math.MaxUint64)
	for _, at := range t.positions {
		needed = min(needed, at)
	}
	for len(t.pages) > 0 && t.pages[0].end <= needed {
		t.drop()
	}
}

// Follow is Ledger.Follow.
func (t *SharedTail) Follow(ctx context.Context, after uint64, fn func(batch []events.Event, last uint64) error) error {
	return t.follow(ctx, after, decoded, func(p page) error { return fn(p.events, p.last) })
}

// rawPause is how long a raw follower that has caught up waits for more events: it is
// woken at most 50 times a second, and not for each of thousands of events.
const rawPause = 20 * time.Millisecond

// FollowRaw is Ledger.FollowRaw, except that a message that is no event ends it, and
// that events may arrive about 20 ms late and in larger batches.
func (t *SharedTail) FollowRaw(ctx context.Context, after uint64, fn func(batch []events.Stored, last uint64) error) error {
	return t.follow(ctx, after, raw, func(p page) error { return fn(p.raw, p.last) })
}

// errCaughtUp ends the reading of the ledger by a follower that has caught up.
var errCaughtUp = errors.New("caught up")

func (t *SharedTail) follow(ctx context.Context, after uint64, form pageContent, fn func(page) error) error {
	me := &tailFollower{form}
	defer t.leave(me)
	// join refuses a position after the end. The follower then reads the ledger itself,
	// which reports a position after the end of the ledger as damage.
	for fed := t.join(me, after, true); ; {
		if !fed {
			err := t.s.follow(ctx, after, form, func(p page) error {
				if err := fn(p); err != nil {
					return err
				}
				if after = p.end; t.join(me, after, false) {
					return errCaughtUp
				}
				return nil
			})
			if !errors.Is(err, errCaughtUp) {
				return err
			}
			fed = true
		}
		p, more, ok, err := t.next(me, after)
		switch {
		case !ok:
			fed = false
		case p.end > after:
			after = p.end
			if err := fn(p); err != nil {
				return err
			}
		case err != nil:
			return err
		default:
			select {
			case <-more:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			if form == raw {
				if err := jet.Wait(ctx, rawPause); err != nil {
					return err
				}
			}
		}
	}
}

// join reports whether the pages hold, or will hold, the events after a position. If so,
// they are kept for the follower from then on. first states that the follower has read
// nothing yet; a position after the last page is then refused.
func (t *SharedTail) join(me *tailFollower, after uint64, first bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.running || after < t.begin || first && after > t.end {
		return false
	}
	t.positions[me] = after
	return true
}

func (t *SharedTail) leave(me *tailFollower) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.positions, me)
	t.trim()
}

// next returns a page with the events after a position. If there is none yet, the page
// is empty, and more is closed when one is added. After Run has ended, err is its
// error. ok is false if the follower must read the ledger itself.
func (t *SharedTail) next(me *tailFollower, after uint64) (p page, more <-chan struct{}, ok bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if after < t.begin {
		delete(t.positions, me)
		return page{}, nil, false, nil
	}
	t.positions[me] = after
	t.trim()
	for i, p := range t.pages {
		if p.end > after {
			p = p.from(int(max(after, p.begin)-p.begin), me.form, t.last)
			return p.mergePages(me.form, t.pages[i+1:]), nil, true, nil
		}
	}
	return page{end: after}, t.changed, true, t.err
}

// mergePages returns the page with the following pages appended, in one form, up to a full
// batch.
func (p page) mergePages(form pageContent, more []page) page {
	pages, size := 0, len(p.events)+len(p.raw)
	for end := p.end; pages < len(more) && size+len(more[pages].raw) <= jet.BatchMessages && more[pages].begin == end; pages++ {
		size, end = size+len(more[pages].raw), more[pages].end
	}
	if pages == 0 {
		return p
	}
	// Other followers use the slices of the first page too.
	if form == raw {
		p.raw = append(make([]events.Stored, 0, size), p.raw...)
	} else {
		p.events = append(make([]events.Event, 0, size), p.events...)
	}
	for _, q := range more[:pages] {
		if form == raw {
			p.raw = append(p.raw, q.raw...)
		} else {
			p.events = append(p.events, q.events...)
		}
		p.end = q.end
	}
	p.last = max(p.last, p.end)
	return p
}

// from returns the page without its first n events, in one form.
func (p page) from(n int, form pageContent, last uint64) page {
	p.last = max(last, p.end)
	p.begin += uint64(n)
	if form == raw {
		p.raw, p.events = p.raw[n:], nil
	} else {
		p.events, p.raw = p.events[n:], nil
	}
	return p
}
