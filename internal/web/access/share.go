package access

import (
	"container/heap"
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"daybook/ledger"
)

const (
	// changeTime is the approximate cost of a change, and byteTime that of each of its
	// bytes, on a slow machine (see speed). The cost covers decoding, recording,
	// signing, syncing, applying and following. It was measured with small runs, 2.7 ms
	// of processor time, and with edits of 60 tags, 7 ms.
	changeTime, byteTime = 2 * time.Millisecond, 150 * time.Nanosecond
	// activeFor is how long a tenant counts as active after it made a change.
	activeFor = time.Second
	// freeDebt is the debt up to which the changes of a tenant do not wait. maxDebt
	// bounds the debt.
	freeDebt, maxDebt = 50 * time.Millisecond, 500 * time.Millisecond
	// shareTimeout bounds how long a change waits for the share of its tenant. shareRetry
	// is the retry time of a change that waited too long.
	shareTimeout = 3 * time.Second
	shareRetry   = 2 * time.Second
	// appendTime is the time that must be left until the request's deadline after a change
	// waited.
	appendTime = 500 * time.Millisecond
	// settleInterval is the minimum time between two payments. maxPause is the maximum time
	// between two checks of a waiting change.
	settleInterval, maxPause = 5 * time.Millisecond, 50 * time.Millisecond
)

// payRate returns how much debt all tenants together pay off per second: a quarter of
// the processors' time, but at least half of one processor and at most two. The
// projections have one writer, so more than eight processors do not help.
func payRate() float64 { return min(max(float64(runtime.GOMAXPROCS(0))/4, 0.5), 2) }

// share divides the time for changes among tenants. While only one tenant makes
// changes, they do not wait. While several tenants make changes, each tenant has a debt.
// Each change adds its cost to the debt of its tenant. The next changes of the tenant wait,
// one behind the other, until the debt is small enough. So a tenant with many or large
// changes leaves most of the processors to the others.
//
// The zero value is ready to use. A share is safe for concurrent use.
type share struct {
	mu      sync.Mutex       // guards the fields below
	debts   map[string]*debt // by tenant; tenants with debt or waiting changes
	owing   owing
	paid    time.Duration // what a tenant would have paid until now if it always had debt
	settled time.Time     // time of the last payment
	speed   speed
	// newest is the newest change. other is the newest change of a tenant other than that of
	// newest.
	newest, other asking
	// recording counts the changes of each tenant that are being recorded.
	recording map[string]int
	// held counts the changes that waited, refused those that waited too long.
	held, refused uint64
}

// debt is the debt of a tenant.
type debt struct {
	tenant string
	// due is the value of share.paid at which the tenant has no debt.
	due     time.Duration
	index   int           // index in share.owing, or notOwing
	turn    chan struct{} // held by the next change to pass; nil until a change waits
	waiting int
}

const notOwing = -1

// owing is a heap of the tenants with debt, the smallest debt first. Increasing
// share.paid pays for all of them.
type owing []*debt

func (o owing) Len() int           { return len(o) }
func (o owing) Less(i, j int) bool { return o[i].due < o[j].due }

func (o owing) Swap(i, j int) {
	o[i], o[j] = o[j], o[i]
	o[i].index, o[j].index = i, j
}

func (o *owing) Push(x any) {
	d := x.(*debt)
	d.index = len(*o)
	*o = append(*o, d)
}

func (o *owing) Pop() any {
	last := len(*o) - 1
	d := (*o)[last]
	(*o)[last] = nil
	*o = (*o)[:last]
	d.index = notOwing
	return d
}

// asking is a tenant and the time of its change.
type asking struct {
	tenant string
	at     time.Time
}

// cost returns the unscaled cost of a change with a number of bytes; see ChangeSize.
func cost(bytes int) time.Duration { return changeTime + time.Duration(bytes)*byteTime }

// maxWait returns how long a change may wait: no longer than most, and so that appendTime
// is left until ctx's deadline. Otherwise the client would not learn that nothing was
// recorded.
func maxWait(ctx context.Context, most time.Duration) time.Duration {
	if end, bounded := ctx.Deadline(); bounded {
		return min(most, time.Until(end)-appendTime)
	}
	return most
}

// enter waits until a change of a tenant may be made. If that takes too long, it
// returns an error with CodeExhausted.
func (s *share) enter(ctx context.Context, tenant string, cost time.Duration) error {
	d := s.register(tenant, cost, time.Now())
	if d == nil {
		return nil
	}
	refused := false
	defer func() { s.leave(d, refused) }()
	late := time.NewTimer(maxWait(ctx, shareTimeout))
	defer late.Stop()
	select {
	case d.turn <- struct{}{}:
	case <-late.C:
		refused = true
		return exhaustedShare()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-d.turn }()
	for {
		pause := s.pass(d, cost, time.Now())
		if pause == 0 {
			return nil
		}
		again := time.NewTimer(pause)
		select {
		case <-again.C:
		case <-late.C:
			again.Stop()
			refused = true
			return exhaustedShare()
		case <-ctx.Done():
			again.Stop()
			return context.Cause(ctx)
		}
	}
}

func exhaustedShare() error {
	return &ledger.Error{Code: ledger.CodeExhausted, RetryAfter: shareRetry, Message: fmt.Sprintf(
		"the changes of this tenant take more than its share while other tenants make changes; nothing was recorded; try again in %d s, with fewer at once", int(shareRetry.Seconds()))}
}

// charge adds the cost of a change that does not wait.
func (s *share) charge(tenant string, cost time.Duration, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(tenant, now)
	s.owe(tenant, cost, now)
}

// refund subtracts the cost of a change that was not recorded.
func (s *share) refund(tenant string, cost time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.debts[tenant]
	if d == nil || d.index == notOwing {
		return
	}
	if d.due -= s.speed.refund(cost); d.due > s.paid {
		heap.Fix(&s.owing, d.index)
		return
	}
	heap.Remove(&s.owing, d.index)
	s.drop(d)
}

// counts returns the number of changes that waited, and of those that were refused.
func (s *share) counts() (held, refused uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held, s.refused
}

// register starts a change of a tenant. If the change need not wait, register adds its cost
// and returns nil. Otherwise the caller must call leave.
func (s *share) register(tenant string, cost time.Duration, now time.Time) *debt {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(tenant, now)
	d := s.debts[tenant]
	if d == nil || d.waiting == 0 && s.mayPass(d, now) {
		s.owe(tenant, cost, now)
		return nil
	}
	if d.turn == nil {
		d.turn = make(chan struct{}, 1)
	}
	d.waiting++
	s.held++
	return d
}

// pass returns how long a change must wait until the next check. If it returns 0, the
// change may be made and its cost is added. A waiting tenant counts as active all the
// time, so that others do not pass as if they were alone.
func (s *share) pass(d *debt, cost time.Duration, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(d.tenant, now)
	if s.mayPass(d, now) {
		s.owe(d.tenant, cost, now)
		return 0
	}
	return min(max(time.Duration(float64(s.owed(d)-freeDebt)/payRate()), settleInterval), maxPause)
}

// leave ends a wait that register started.
func (s *share) leave(d *debt, refused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if refused {
		s.refused++
	}
	d.waiting--
	s.drop(d)
}

// note stores that a tenant makes a change now. The caller must hold mu.
func (s *share) note(tenant string, now time.Time) {
	if s.newest.tenant != tenant {
		s.other = s.newest
	}
	s.newest = asking{tenant, now}
	s.settle(now)
}

// mayPass reports whether the next change of a tenant need not wait. The caller must hold
// mu.
func (s *share) mayPass(d *debt, now time.Time) bool {
	others := s.newest
	if others.tenant == d.tenant {
		others = s.other
	}
	if s.owed(d) <= freeDebt {
		return true
	}
	asks := len(s.recording)
	if s.recording[d.tenant] > 0 {
		asks--
	}
	return asks == 0 && now.Sub(others.at) >= activeFor
}

// begin and end enclose the recording of a change. On a busy server, recording takes
// longer than activeFor. Without these calls, other tenants would pass freely meanwhile
// and delay the recording further.
func (s *share) begin(tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recording == nil {
		s.recording = map[string]int{}
	}
	s.recording[tenant]++
}

func (s *share) end(tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recording[tenant]--; s.recording[tenant] == 0 {
		delete(s.recording, tenant)
	}
}

// owed returns the debt of a tenant. The caller must hold mu.
func (s *share) owed(d *debt) time.Duration {
	if d.index == notOwing {
		return 0
	}
	return d.due - s.paid
}

// owe adds the cost of a change. The caller must hold mu.
func (s *share) owe(tenant string, cost time.Duration, now time.Time) {
	if cost <= 0 {
		return
	}
	d := s.debts[tenant]
	if d == nil {
		if s.debts == nil {
			s.debts = map[string]*debt{}
		}
		d = &debt{tenant: tenant, index: notOwing}
		s.debts[tenant] = d
	}
	d.due = s.paid + min(s.owed(d)+s.speed.cost(cost, now), maxDebt)
	if d.index == notOwing {
		heap.Push(&s.owing, d)
	} else {
		heap.Fix(&s.owing, d.index)
	}
}

// settle pays off debts for the time since the last payment, in equal parts for the tenants
// with debt. What a tenant does not need of its part is divided among the others. The
// caller must hold mu.
func (s *share) settle(now time.Time) {
	passed := now.Sub(s.settled)
	if passed < settleInterval {
		return
	}
	s.settled = now
	left := time.Duration(float64(min(passed, maxDebt*4)) * payRate())
	for len(s.owing) > 0 {
		first, tenants := s.owing[0], len(s.owing)
		part := min(left/time.Duration(tenants), first.due-s.paid)
		s.paid += part
		left -= part * time.Duration(tenants)
		if s.paid < first.due {
			return // less than 1 ns per tenant is left
		}
		heap.Pop(&s.owing)
		s.drop(first)
	}
}

// drop deletes a tenant without debt and waiting changes. The caller must hold mu.
func (s *share) drop(d *debt) {
	if d.index == notOwing && d.waiting == 0 {
		delete(s.debts, d.tenant)
	}
}
