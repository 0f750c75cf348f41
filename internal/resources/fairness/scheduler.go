package fairness

import (
	"fmt"
	"time"
)

// Slots says how many runs a runner does at once, and how tenants share them.
type Slots struct {
	// Total is how many runs a runner does at once; 1 or more.
	Total int
	// PerTenant bounds the slots that one tenant occupies; 0 is unlimited.
	PerTenant int
	// Extra is how many runs more than Total a runner does for tenants that wait
	// behind runs that end too late; 0 is none.
	Extra int
	// After is how long such a tenant waits before it gets an extra slot.
	After time.Duration
	// Weights are the shares of tenants, in comparison with each other. A tenant
	// that is not listed has 1.
	Weights map[string]int
}

// Check returns an error that names the first value that is out of range.
func (s Slots) Check() error {
	switch {
	case s.Total < 1:
		return fmt.Errorf("%d slots: a runner needs 1 or more", s.Total)
	case s.PerTenant < 0:
		return fmt.Errorf("%d slots for each tenant: 0 is unlimited", s.PerTenant)
	case s.Extra < 0:
		return fmt.Errorf("%d extra slots: 0 is none", s.Extra)
	case s.After < 0:
		return fmt.Errorf("an extra slot after %s: the time cannot be negative", s.After)
	}
	for tenant, w := range s.Weights {
		if w < 1 {
			return fmt.Errorf("the weight of tenant %q is %d: it must be 1 or more", tenant, w)
		}
	}
	return nil
}

// minCharge is the slot time charged at least for a run, so that runs that take
// no measurable time are taken in turn too.
const minCharge = time.Millisecond

// Scheduler shares the slots of one runner among tenants. Each tenant has a
// clock that advances by the time its runs occupy slots, divided by its weight,
// while they run. A free slot goes to the waiting tenant whose clock is furthest
// behind. A tenant that starts to wait gets at least the time of the tenant that
// is furthest behind: time in which it asked for nothing gives it no credit.
//
// A Scheduler is not safe for concurrent use.
type Scheduler struct {
	slots   Slots
	tenants map[string]*tenant
	// floor is the smallest clock of the tenants that wait or run, as of the last
	// reading. It never decreases.
	floor time.Duration
	// taken counts the occupied slots.
	taken int
	// fullSince is when the last slot that is not an extra one was taken or given
	// up.
	fullSince time.Time
	// served counts the slots taken so far; it orders tenants with equal clocks.
	served uint64
}

type tenant struct {
	weight time.Duration
	clock  time.Duration
	// waiting is how many requests are expected to wait, since when the first of
	// them waits without a slot having been taken for the tenant.
	waiting int
	since   time.Time
	// began holds the start of each run that occupies a slot.
	began map[*Slot]time.Time
	last  uint64
}

// Slot is a slot that Next took. It belongs to one run.
type Slot struct {
	// Tenant is the tenant whose request the slot takes.
	Tenant string
	// Extra reports that the slot is one more than Slots.Total.
	Extra bool
}

// New returns a Scheduler with free slots. It panics if Slots.Check fails.
func New(s Slots) *Scheduler {
	if err := s.Check(); err != nil {
		panic("fairness.New: " + err.Error())
	}
	return &Scheduler{slots: s, tenants: map[string]*tenant{}}
}

// Expect adds n to the requests of a tenant that are expected to wait.
func (s *Scheduler) Expect(name string, n int, now time.Time) {
	if n > 0 {
		s.SetWaiting(name, s.Waiting(name)+n, now)
	}
}

// Waiting is how many requests of a tenant are expected to wait.
func (s *Scheduler) Waiting(name string) int {
	if t := s.tenants[name]; t != nil {
		return t.waiting
	}
	return 0
}

// SetWaiting sets how many requests of a tenant are expected to wait. No slot is
// taken for a tenant with none.
func (s *Scheduler) SetWaiting(name string, n int, now time.Time) {
	var floor time.Duration
	if n > 0 && s.Waiting(name) == 0 {
		floor = s.advanceFloor(now) // before the tenant is looked up: it may be forgotten here
	}
	t := s.tenants[name]
	switch {
	case t == nil && n <= 0:
		return
	case t == nil:
		t = &tenant{weight: time.Duration(max(s.slots.Weights[name], 1)), began: map[*Slot]time.Time{}}
		s.tenants[name] = t
	}
	if n > 0 && t.waiting == 0 {
		t.since = now
		if len(t.began) == 0 {
			t.clock = max(t.clock, floor)
		}
	}
	t.waiting = max(n, 0)
	s.forget(name, t)
}

// forget drops a tenant that does not wait and is not ahead of any other.
func (s *Scheduler) forget(name string, t *tenant) {
	if t.waiting == 0 && len(t.began) == 0 && (t.clock <= s.floor || len(s.tenants) == 1) {
		delete(s.tenants, name)
	}
}

// advanceFloor sets the floor to the smallest clock of the tenants that wait or
// run.
func (s *Scheduler) advanceFloor(now time.Time) time.Duration {
	var least *time.Duration
	for _, t := range s.tenants {
		if t.waiting == 0 && len(t.began) == 0 {
			continue
		}
		if c := t.at(now); least == nil || c < *least {
			least = &c
		}
	}
	if least != nil {
		s.floor = max(s.floor, *least)
	}
	for name, t := range s.tenants {
		if t.waiting == 0 && len(t.began) == 0 && (least == nil || t.clock <= s.floor) {
			delete(s.tenants, name)
		}
	}
	return s.floor
}

// at is the tenant's clock at a time: what is charged for ended runs and what
// the others have used so far.
func (t *tenant) at(now time.Time) time.Duration {
	c := t.clock
	for _, began := range t.began {
		c += max(now.Sub(began), 0) / t.weight
	}
	return c
}

// Next takes a slot for the tenant whose turn it is, and counts one waiting
// request of it less. It returns nil when no slot is free for any tenant that
// waits. The caller gives the slot back with Release or Cancel.
func (s *Scheduler) Next(now time.Time) *Slot {
	extra := s.taken >= s.slots.Total
	if s.taken >= s.slots.Total+s.slots.Extra {
		return nil
	}
	var chosen string
	var best *tenant
	var clock time.Duration
	for name, t := range s.tenants {
		switch {
		case t.waiting == 0:
			continue
		case s.slots.PerTenant > 0 && len(t.began) >= s.slots.PerTenant:
			continue
		case extra && (len(t.began) > 0 || now.Before(s.extraAt(t))):
			continue
		}
		c := t.at(now)
		if best == nil || c < clock || c == clock && (t.last < best.last || t.last == best.last && name < chosen) {
			chosen, best, clock = name, t, c
		}
	}
	if best == nil {
		return nil
	}
	slot := &Slot{Tenant: chosen, Extra: extra}
	s.served++
	best.last, best.since = s.served, now
	best.waiting--
	best.began[slot] = now
	s.taken++
	if s.taken == s.slots.Total {
		s.fullSince = now
	}
	return slot
}

// extraAt is when a waiting tenant without a slot may have an extra one: the
// others have kept all slots, or have been served before it, for long enough.
func (s *Scheduler) extraAt(t *tenant) time.Time {
	from := t.since
	if s.fullSince.Before(from) {
		from = s.fullSince
	}
	return from.Add(s.slots.After)
}

// Release gives a slot back whose run has ended, and charges the tenant for it.
func (s *Scheduler) Release(slot *Slot, now time.Time) {
	t, began := s.give(slot)
	if t == nil {
		return
	}
	t.clock += max(now.Sub(began), minCharge) / t.weight
	if !slot.Extra {
		s.fullSince = now
	}
	s.advanceFloor(now)
	s.forget(slot.Tenant, t)
}

// Cancel gives a slot back that found no request to run. Nothing is charged.
func (s *Scheduler) Cancel(slot *Slot) {
	if t, _ := s.give(slot); t != nil {
		s.forget(slot.Tenant, t)
	}
}

func (s *Scheduler) give(slot *Slot) (*tenant, time.Time) {
	t := s.tenants[slot.Tenant]
	if t == nil {
		return nil, time.Time{}
	}
	began, ok := t.began[slot]
	if !ok {
		return nil, time.Time{}
	}
	delete(t.began, slot)
	s.taken--
	return t, began
}

// Free reports whether a slot that is not an extra one is free.
func (s *Scheduler) Free() bool { return s.taken < s.slots.Total }

// Idle reports whether a slot is free and no request is expected to wait.
func (s *Scheduler) Idle() bool {
	for _, t := range s.tenants {
		if t.waiting > 0 {
			return false
		}
	}
	return s.Free()
}

// NextExtra is the earliest time at which Next may take an extra slot although
// nothing else happens before. It reports false when there is none.
func (s *Scheduler) NextExtra() (at time.Time, ok bool) {
	if s.taken < s.slots.Total || s.taken >= s.slots.Total+s.slots.Extra {
		return time.Time{}, false
	}
	for _, t := range s.tenants {
		if t.waiting == 0 || len(t.began) > 0 {
			continue
		}
		if e := s.extraAt(t); !ok || e.Before(at) {
			at, ok = e, true
		}
	}
	return at, ok
}
