package stream

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"daybook/events"
	"daybook/internal/store/jet"
)

// tailBytes bounds the bodies that a Tail keeps for followers that are behind.
const tailBytes = 16 << 20

// SharedTail is one reading of the newest part of the ledger, shared by followers
// that would each read the same. None of them holds up another: one that falls
// too far behind, or has not caught up yet, reads for itself until it has.
//
// Followers work while Run does. A Tail is safe for concurrent use.
type SharedTail struct {
	s     *Ledger
	limit int // of size
	// sweepAge, sweepEvery and sweepBytes are the constants, except in tests.
	sweepAge, sweepEvery time.Duration
	sweepBytes           int64

	mu sync.Mutex
	// pages follow each other, without a hole but those that are on record, from
	// the event after begin on to the one at end. size is that of their bodies, in
	// bytes.
	pages            []page
	begin, end, last uint64
	size             int
	read             int64  // bytes of all bodies since Run
	swept            uint64 // the position up to which events were swept, 0 before the first sweep
	running          bool
	err              error               // what ended Run
	at               map[*tailing]uint64 // where each follower is that is fed from pages
	changed          chan struct{}       // closed and replaced when something was added
}

// tailing is a follower of a Tail.
type tailing struct{ form pageContent }

// NewTail makes a Tail; nothing is read before Run.
func (s *Ledger) NewTail() *SharedTail {
	return &SharedTail{s: s, limit: tailBytes, sweepAge: sweepAge, sweepEvery: sweepEvery, sweepBytes: sweepBytes, at: map[*tailing]uint64{}, changed: make(chan struct{})}
}

// Run reads what comes after a position, for the followers, until ctx is done or
// nothing more can be read. The error is theirs too. Call it once.
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
	err := t.s.follow(ctx, after, decoded|raw, func(p page) error {
		t.push(p)
		return nil
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = err
	t.wake()
	return err
}

// wake is called with mu held.
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

// drop forgets the oldest page. It is called with mu held.
func (t *SharedTail) drop() {
	t.begin, t.size = t.pages[0].end, t.size-t.pages[0].bytes()
	t.pages[0] = page{}
	t.pages = t.pages[1:]
}

// trim forgets what every follower has. It is called with mu held.
func (t *SharedTail) trim() {
	needed := uint64(math.MaxUint64)
	for _, at := range t.at {
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

// rawPause is how long a raw follower that has caught up lets events gather: it
// is woken fifty times a second, not for each of thousands.
const rawPause = 20 * time.Millisecond

// FollowRaw is Ledger.FollowRaw, except that a message that is no event ends it,
// and that events may come some milliseconds late, many at a time.
func (t *SharedTail) FollowRaw(ctx context.Context, after uint64, fn func(batch []events.Stored, last uint64) error) error {
	return t.follow(ctx, after, raw, func(p page) error { return fn(p.raw, p.last) })
}

// errCaughtUp ends the reading of a follower for itself.
var errCaughtUp = errors.New("caught up")

func (t *SharedTail) follow(ctx context.Context, after uint64, form pageContent, fn func(page) error) error {
	me := &tailing{form}
	defer t.leave(me)
	// A position beyond the end is for the follower's own reading to find.
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

// join reports whether what comes after a position is, or will be, among the
// pages; from then on it is kept for the follower.
func (t *SharedTail) join(me *tailing, after uint64, first bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.running || after < t.begin || first && after > t.end {
		return false
	}
	t.at[me] = after
	return true
}

func (t *SharedTail) leave(me *tailing) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.at, me)
	t.trim()
}

// next returns a page of what comes after a position, empty if there is nothing
// yet: then more is closed when there is, unless Run has ended, with an error. It
// reports false when the follower has to read for itself.
func (t *SharedTail) next(me *tailing, after uint64) (p page, more <-chan struct{}, ok bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if after < t.begin {
		delete(t.at, me)
		return page{}, nil, false, nil
	}
	t.at[me] = after
	t.trim()
	for i, p := range t.pages {
		if p.end > after {
			p = p.from(int(max(after, p.begin)-p.begin), me.form, t.last)
			if me.form == raw {
				p = t.mergePages(p, t.pages[i+1:])
			}
			return p, nil, true, nil
		}
	}
	return page{end: after}, t.changed, true, t.err
}

// mergePages adds the pages that follow one, up to a full batch.
func (t *SharedTail) mergePages(p page, more []page) page {
	var list []events.Stored
	for _, q := range more {
		if len(p.raw)+len(q.raw) > jet.BatchMessages || q.begin != p.end {
			break
		}
		if list == nil { // the first page is others' too
			list = append(make([]events.Stored, 0, jet.BatchMessages), p.raw...)
		}
		list = append(list, q.raw...)
		p.raw, p.end = list, q.end
	}
	p.last = max(p.last, p.end)
	return p
}

// from is the page without its first n events, in one form.
func (p page) from(n int, form pageContent, last uint64) page {
	p.last = max(last, p.end)
	p.begin += uint64(n)
	if form&decoded != 0 {
		p.events = p.events[n:]
	}
	if form&raw != 0 {
		p.raw = p.raw[n:]
	}
	return p
}
