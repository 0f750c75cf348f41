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
	// changeTime and byteTime are what a change costs the server about, and each byte
	// of it, on a slow machine (see speed): it is decoded, recorded, signed, synced,
	// applied and followed. Measured with small runs, 2.7 ms of processor time, and with
	// edits of 60 tags, 7 ms.
	changeTime, byteTime = 2 * time.Millisecond, 150 * time.Nanosecond
	// askingFor is how long a tenant counts as one that asks, after a change of it.
	askingFor = time.Second
	// freeTime is how much a tenant may owe before its changes wait, and mostOwed
	// bounds what is held against it.
	freeTime, mostOwed = 50 * time.Millisecond, 500 * time.Millisecond
	// shareWait is how long a change waits for the share of its tenant, and shareRetry
	// when it may be repeated after that.
	shareWait  = 3 * time.Second
	shareRetry = 2 * time.Second
	// appendTime is what a change needs of the time of its request after it waited.
	appendTime = 500 * time.Millisecond
	// settleAfter is how often what is owed is paid off, and longestPause how long a
	// change waits before it asks again.
	settleAfter, longestPause = 5 * time.Millisecond, 50 * time.Millisecond
)

// payRate is how much of what is owed all tenants together pay off in a second: the
// time of a quarter of the processors, at least that of half of one. The projections
// have one writer, so more than eight processors do not help.
func payRate() float64 { return min(max(float64(runtime.GOMAXPROCS(0))/4, 0.5), 2) }

// share divides among tenants the time that their changes take. While only one tenant
// makes changes they pass at once. While others do too, a tenant owes what its changes
// cost, and the next ones wait, one behind the other, until it is paid off: a tenant
// that makes many or large changes leaves most of the processors to the others.
//
// The zero value is ready to use. It is safe for concurrent use.
type share struct {
	mu      sync.Mutex       // guards what follows
	debts   map[string]*debt // by tenant; those that owe or wait
	owing   owing
	paid    time.Duration // what a tenant has paid off that owed all the time
	settled time.Time     // when all last paid off
	speed   speed
	// newest is the tenant of the newest change, other the newest one of another tenant.
	newest, other asking
	// recording counts the changes of each tenant that are being recorded.
	recording map[string]int
	// held and refused count changes that waited, and those that waited in vain.
	held, refused uint64
}

// debt is what a tenant owes.
type debt struct {
	tenant string
	// due is what share.paid is when the tenant has paid all.
	due     time.Duration
	place   int           // in share.owing, notOwing if it is not there
	turn    chan struct{} // held by the change that passes next; nil before one waits
	waiting int
}

const notOwing = -1

// owing are the tenants that owe, a heap of those that have paid first. One step pays
// for all of them.
type owing []*debt

func (o owing) Len() int           { return len(o) }
func (o owing) Less(i, j int) bool { return o[i].due < o[j].due }

func (o owing) Swap(i, j int) {
	o[i], o[j] = o[j], o[i]
	o[i].place, o[j].place = i, j
}

func (o *owing) Push(x any) {
	d := x.(*debt)
	d.place = len(*o)
	*o = append(*o, d)
}

func (o *owing) Pop() any {
	last := len(*o) - 1
	d := (*o)[last]
	(*o)[last] = nil
	*o = (*o)[:last]
	d.place = notOwing
	return d
}

// asking is a tenant that made a change.
type asking struct {
	tenant string
	at     time.Time
}

// cost is what a change of so many bytes costs, see ChangeSize.
func cost(bytes int) time.Duration { return changeTime + time.Duration(bytes)*byteTime }

// patience is how long a change may wait: for so long, or until its request needs the
// time that is left. Otherwise the client would not know that nothing was recorded.
func patience(ctx context.Context, most time.Duration) time.Duration {
	if end, bounded := ctx.Deadline(); bounded {
		return min(most, time.Until(end)-appendTime)
	}
	return most
}

// enter waits until a change of a tenant may be made, and returns CodeExhausted if that
// takes too long.
func (s *share) enter(ctx context.Context, tenant string, cost time.Duration) error {
	d := s.ask(tenant, cost, time.Now())
	if d == nil {
		return nil
	}
	refused := false
	defer func() { s.leave(d, refused) }()
	late := time.NewTimer(patience(ctx, shareWait))
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
		"the changes of this tenant take more than its share while other tenants ask; nothing was recorded; try again in %d s, with fewer at once", int(shareRetry.Seconds()))}
}

// charge counts a change that is not held back.
func (s *share) charge(tenant string, cost time.Duration, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(tenant, now)
	s.owe(tenant, cost, now)
}

// refund takes back what a change has cost that was not recorded.
func (s *share) refund(tenant string, cost time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.debts[tenant]
	if d == nil || d.place == notOwing {
		return
	}
	if d.due -= s.speed.back(cost); d.due > s.paid {
		heap.Fix(&s.owing, d.place)
		return
	}
	heap.Remove(&s.owing, d.place)
	s.drop(d)
}

// counts returns how many changes have waited, and how many of them in vain.
func (s *share) counts() (held, refused uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held, s.refused
}

// ask notes that a tenant makes a change. It returns nil if that may be made at once:
// then it counts. Otherwise the caller must call leave.
func (s *share) ask(tenant string, cost time.Duration, now time.Time) *debt {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(tenant, now)
	d := s.debts[tenant]
	if d == nil || d.waiting == 0 && s.free(d, now) {
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

// pass returns how long a change has to wait, 0 if it may be made: then it counts. A
// tenant that waits asks all the time: others must not pass beside it as if alone.
func (s *share) pass(d *debt, cost time.Duration, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(d.tenant, now)
	if s.free(d, now) {
		s.owe(d.tenant, cost, now)
		return 0
	}
	return min(max(time.Duration(float64(s.owed(d)-freeTime)/payRate()), settleAfter), longestPause)
}

// leave ends what ask began.
func (s *share) leave(d *debt, refused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if refused {
		s.refused++
	}
	d.waiting--
	s.drop(d)
}

// note notes that a tenant makes a change. The caller must hold mu.
func (s *share) note(tenant string, now time.Time) {
	if s.newest.tenant != tenant {
		s.other = s.newest
	}
	s.newest = asking{tenant, now}
	s.settle(now)
}

// free reports whether the next change of a tenant need not wait. The caller must hold
// mu.
func (s *share) free(d *debt, now time.Time) bool {
	others := s.newest
	if others.tenant == d.tenant {
		others = s.other
	}
	if s.owed(d) <= freeTime {
		return true
	}
	asks := len(s.recording)
	if s.recording[d.tenant] > 0 {
		asks--
	}
	return asks == 0 && now.Sub(others.at) >= askingFor
}

// begin and end are called around the recording of a change. On a busy server that takes
// longer than a tenant counts as one that asks: without this, others would be free to
// delay it further.
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

// owed is what a tenant owes. The caller must hold mu.
func (s *share) owed(d *debt) time.Duration {
	if d.place == notOwing {
		return 0
	}
	return d.due - s.paid
}

// owe counts a change. The caller must hold mu.
func (s *share) owe(tenant string, cost time.Duration, now time.Time) {
	if cost <= 0 {
		return
	}
	d := s.debts[tenant]
	if d == nil {
		if s.debts == nil {
			s.debts = map[string]*debt{}
		}
		d = &debt{tenant: tenant, place: notOwing}
		s.debts[tenant] = d
	}
	d.due = s.paid + min(s.owed(d)+s.speed.cost(cost, now), mostOwed)
	if d.place == notOwing {
		heap.Push(&s.owing, d)
	} else {
		heap.Fix(&s.owing, d.place)
	}
}

// settle pays off what passed since the last time, in equal parts; what a tenant does not
// need of its part is for the others. The caller must hold mu.
func (s *share) settle(now time.Time) {
	passed := now.Sub(s.settled)
	if passed < settleAfter {
		return
	}
	s.settled = now
	left := time.Duration(float64(min(passed, mostOwed*4)) * payRate())
	for len(s.owing) > 0 {
		first, tenants := s.owing[0], len(s.owing)
		part := min(left/time.Duration(tenants), first.due-s.paid)
		s.paid += part
		left -= part * time.Duration(tenants)
		if s.paid < first.due {
			return // less than a nanosecond for each is left
		}
		heap.Pop(&s.owing)
		s.drop(first)
	}
}

// drop forgets a tenant that neither owes nor waits. The caller must hold mu.
func (s *share) drop(d *debt) {
	if d.place == notOwing && d.waiting == 0 {
		delete(s.debts, d.tenant)
	}
}
