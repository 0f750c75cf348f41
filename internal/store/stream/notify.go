package stream

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"daybook/events"
	"daybook/internal/store/jet"
)

// appendNotifier wakes a follower when events are appended. This process tells it what it
// appends. If other processes may append too, the notifier subscribes to the messages that
// the stream republishes, which are only stored events. It may miss some of them.
type appendNotifier struct {
	sub    *nats.Subscription // nil if no other process appends
	leave  func()
	newest atomic.Uint64
	wake   chan struct{}
	// appended holds the events that this process appended.
	appended appended
	// isUncertain reports whether the stream may hold events that were not announced. Only
	// the follower uses it.
	isUncertain bool
}

func (s *Ledger) listen() (*appendNotifier, error) {
	a := &appendNotifier{wake: make(chan struct{}, 1)}
	a.leave = s.notifiers.join(a)
	if s.opts.Exclusive {
		return a, nil
	}
	var err error
	a.sub, err = s.jet.Conn.Subscribe(republishedSubjects, func(m *nats.Msg) {
		if seq, err := strconv.ParseUint(jet.DeliveryValue(m.Header, jet.HeaderSequence), 10, 64); err == nil {
			if _, ok := events.VolumeOf(jet.DeliveryValue(m.Header, jet.HeaderStream)); ok {
				a.announce(seq)
			}
		}
	})
	if err != nil {
		a.leave()
		return nil, err
	}
	return a, nil
}

// announce notes that an event is stored at a position, and wakes the follower.
func (a *appendNotifier) announce(seq uint64) {
	a.observe(seq)
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

func (a *appendNotifier) observe(seq uint64) {
	for old := a.newest.Load(); seq > old; old = a.newest.Load() {
		if a.newest.CompareAndSwap(old, seq) {
			return
		}
	}
}

// wait returns when there may be new events, and reports whether an announcement came.
func (a *appendNotifier) wait(ctx context.Context) (announced bool, err error) {
	return a.waitFor(ctx, pollInterval)
}

// waitBriefly returns when there may be new events, or after lagPause.
func (a *appendNotifier) waitBriefly(ctx context.Context) error {
	_, err := a.waitFor(ctx, lagPause)
	return err
}

func (a *appendNotifier) waitFor(ctx context.Context, d time.Duration) (announced bool, err error) {
	t := time.NewTimer(d)
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

// stop ends the notifications.
func (a *appendNotifier) stop() {
	a.leave()
	if a.sub != nil {
		_ = a.sub.Unsubscribe() // fails only if the connection is closed
	}
}

// notifiers are the notifiers of the followers of a process.
type notifiers struct {
	mu  sync.Mutex
	all map[*appendNotifier]struct{} // guarded by mu
}

// join adds a notifier. leave removes it.
func (n *notifiers) join(a *appendNotifier) (leave func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.all == nil {
		n.all = map[*appendNotifier]struct{}{}
	}
	n.all[a] = struct{}{}
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.all, a)
	}
}

// announce passes an event that this process appended to the followers.
func (n *notifiers) announce(m events.Stored) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for a := range n.all {
		a.appended.add(m)
		a.announce(m.Seq)
	}
}

// observe tells the followers that an event is stored at a position.
func (n *notifiers) observe(seq uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for a := range n.all {
		a.announce(seq)
	}
}
