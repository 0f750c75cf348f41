package access

import (
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
	shareWait  = 10 * time.Second
	shareRetry = 2 * time.Second
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
	mu      sync.Mutex
	debts   map[string]*debt // by tenant; guarded by mu; those that owe or wait
	settled time.Time        // guarded by mu; when all last paid off
	speed   speed            // guarded by mu
	// newest is the tenant of the newest change, other the newest one of another tenant.
	newest, other asking // guarded by mu
}

// debt is what a tenant owes.
type debt struct {
	owed    time.Duration
	turn    chan struct{} // held by the change that passes next
	waiting int
}

// asking is a tenant that made a change.
type asking struct {
	tenant string
	at     time.Time
}

// cost is what a change of so many bytes costs, see ChangeSize.
func cost(bytes int) time.Duration { return changeTime + time.Duration(bytes)*byteTime }

// enter waits until a change of a tenant may be made, and returns CodeExhausted if that
// takes too long.
func (s *share) enter(ctx context.Context, tenant string, cost time.Duration) error {
	d := s.ask(tenant, cost, time.Now())
	if d == nil {
		return nil
	}
	defer s.leave(tenant, d)
	late := time.NewTimer(shareWait)
	defer late.Stop()
	select {
	case d.turn <- struct{}{}:
	case <-late.C:
		return exhaustedShare()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-d.turn }()
	for {
		pause := s.pass(tenant, d, cost, time.Now())
		if pause == 0 {
			return nil
		}
		again := time.NewTimer(pause)
		select {
		case <-again.C:
		case <-late.C:
			again.Stop()
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

// ask notes that a tenant makes a change. It returns nil if that may be made at once:
// then it counts. Otherwise the caller must call leave.
func (s *share) ask(tenant string, cost time.Duration, now time.Time) *debt {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(tenant, now)
	d := s.debts[tenant]
	if d == nil || d.waiting == 0 && s.free(tenant, d, now) {
		s.owe(tenant, cost, now)
		return nil
	}
	d.waiting++
	return d
}

// pass returns how long a change has to wait, 0 if it may be made: then it counts.
func (s *share) pass(tenant string, d *debt, cost time.Duration, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle(now)
	if s.free(tenant, d, now) {
		s.owe(tenant, cost, now)
		return 0
	}
	return min(max(time.Duration(float64(d.owed-freeTime)/payRate()), settleAfter), longestPause)
}

// leave ends what ask began.
func (s *share) leave(tenant string, d *debt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d.waiting--
	s.drop(tenant, d)
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
func (s *share) free(tenant string, d *debt, now time.Time) bool {
	others := s.newest
	if others.tenant == tenant {
		others = s.other
	}
	return d.owed <= freeTime || now.Sub(others.at) >= askingFor
}

// owe counts a change. The caller must hold mu.
func (s *share) owe(tenant string, cost time.Duration, now time.Time) {
	d := s.debts[tenant]
	if d == nil {
		if s.debts == nil {
			s.debts = map[string]*debt{}
		}
		d = &debt{turn: make(chan struct{}, 1)}
		s.debts[tenant] = d
	}
	d.owed = min(d.owed+s.speed.cost(cost, now), mostOwed)
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
	for left > 0 {
		owing := 0
		for _, d := range s.debts {
			if d.owed > 0 {
				owing++
			}
		}
		if owing == 0 {
			break
		}
		part := max(left/time.Duration(owing), 1)
		for _, d := range s.debts {
			paid := min(d.owed, part)
			d.owed -= paid
			left -= paid
		}
	}
	for tenant, d := range s.debts {
		s.drop(tenant, d)
	}
}

// drop forgets a tenant that neither owes nor waits. The caller must hold mu.
func (s *share) drop(tenant string, d *debt) {
	if d.owed == 0 && d.waiting == 0 {
		delete(s.debts, tenant)
	}
}
