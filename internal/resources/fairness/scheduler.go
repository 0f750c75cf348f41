package fairness

import (
	"fmt"
	"time"
)

// Slots configures how many runs a runner executes at once, and how tenants share them.
type Slots struct {
	// Total is the number of runs at once. It MUST be positive.
	Total int
	// PerTenant bounds the slots of one tenant. 0 means unlimited.
	PerTenant int
	// Extra is the number of runs beyond Total for tenants that wait behind runs that
	// end too late. 0 means none.
	Extra int
	// ExtraAfter is the time that such a tenant waits before it gets an extra slot.
	ExtraAfter time.Duration
	// Weights are the relative shares of tenants. A tenant that is not listed has
	// weight 1.
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
	case s.ExtraAfter < 0:
		return fmt.Errorf("an extra slot after %s: the time cannot be negative", s.ExtraAfter)
	}
	for tenant, w := range s.Weights {
		if w < 1 {
			return fmt.Errorf("the weight of tenant %q is %d: it must be 1 or more", tenant, w)
		}
	}
	return nil
}

// minCharge is the minimum slot time charged for a run, so that runs without measurable
// time are taken in turn too.
const minCharge = time.Millisecond

// Scheduler shares the slots of one runner among tenants. Each tenant has a clock that
// advances, while its runs occupy slots, by their time divided by the tenant's weight.
// A free slot goes to the waiting tenant with the lowest clock. When a tenant starts to
// wait, its clock is raised at least to the lowest clock of the others, so that time
// without requests gives no credit.
//
// A Scheduler is not safe for concurrent use.
type Scheduler struct {
	slots   Slots
	tenants map[string]*tenant
	// floor is the lowest clock of the tenants that wait or run, at the last reading.
	// It never decreases.
	floor time.Duration
	// takenSlots is the number of occupied slots.
	takenSlots int
	// fullSince is the latest time at which a normal slot, which is not an extra one, was
	// released, or at which the last free normal slot was taken.
	fullSince time.Time
	// served counts the slots taken so far. It orders tenants with equal clocks.
	served uint64
}

type tenant struct {
	weight time.Duration
	clock  time.Duration
	// waiting is the number of requests that are expected to wait. since is the time at
	// which the tenant began to wait, or at which it last got a slot if that is later.
	waiting int
	since   time.Time
	// starts maps each slot of the tenant to the start of its run.
	starts map[*Slot]time.Time
	last   uint64
}

// Slot is a slot that Next took for one run.
type Slot struct {
	// Tenant is the tenant whose request the slot takes.
	Tenant string
	// Extra reports whether the slot is beyond Slots.Total.
	Extra bool
}

// New returns a Scheduler with free slots. It panics if Slots.Check fails.
func New(s Slots) *Scheduler {
	if err := s.Check(); err != nil {
		panic("fairness.New: " + err.Error())
	}
	return &Scheduler{slots: s, tenants: map[string]*tenant{}}
}

// Expect adds n to the number of requests of a tenant that are expected to wait.
func (s *Scheduler) Expect(name string, n int, now time.Time) {
	if n > 0 {
		s.SetWaiting(name, s.Waiting(name)+n, now)
	}
}

// Waiting returns the number of requests of a tenant that are expected to wait.
func (s *Scheduler) Waiting(name string) int {
	if t := s.tenants[name]; t != nil {
		return t.waiting
	}
	return 0
}

// SetWaiting sets the number of requests of a tenant that are expected to wait. Next
// takes no slot for a tenant with 0.
func (s *Scheduler) SetWaiting(name string, n int, now time.Time) {
	var floor time.Duration
	if n > 0 && s.Waiting(name) == 0 {
		floor = s.advanceFloor(now) // before the tenant is looked up, because this may drop it
	}
	t := s.tenants[name]
	switch {
	case t == nil && n <= 0:
		return
	case t == nil:
		t = &tenant{weight: time.Duration(max(s.slots.Weights[name], 1)), starts: map[*Slot]time.Time{}}
		s.tenants[name] = t
	}
	if n > 0 && t.waiting == 0 {
		t.since = now
		if len(t.starts) == 0 {
			t.clock = max(t.clock, floor)
		}
	}
	t.waiting = max(n, 0)
	s.forget(name, t)
}

// forget drops a tenant that has neither requests nor runs, if its clock is not above the
// floor or if there is no other tenant.
func (s *Scheduler) forget(name string, t *tenant) {
	if t.waiting == 0 && len(t.starts) == 0 && (t.clock <= s.floor || len(s.tenants) == 1) {
		delete(s.tenants, name)
	}
}

// advanceFloor sets the floor to the lowest clock of the tenants that wait or run.
func (s *Scheduler) advanceFloor(now time.Time) time.Duration {
	var least *time.Duration
	for _, t := range s.tenants {
		if t.waiting == 0 && len(t.starts) == 0 {
			continue
		}
		if c := t.clockAt(now); least == nil || c < *least {
			least = &c
		}
	}
	if least != nil {
		s.floor = max(s.floor, *least)
	}
	for name, t := range s.tenants {
		if t.waiting == 0 && len(t.starts) == 0 && (least == nil || t.clock <= s.floor) {
			delete(s.tenants, name)
		}
	}
	return s.floor
}

// clockAt returns the tenant's clock at a time: the charges for ended runs plus the time of
// the current ones.
func (t *tenant) clockAt(now time.Time) time.Duration {
	c := t.clock
	for _, began := range t.starts {
		c += max(now.Sub(began), 0) / t.weight
	}
	return c
}

// Next takes a slot for the tenant whose turn it is, and subtracts one waiting request
// of it. It returns nil if no slot is free for any waiting tenant. The caller MUST call
// Release or Cancel.
func (s *Scheduler) Next(now time.Time) *Slot {
	extra := s.takenSlots >= s.slots.Total
	if s.takenSlots >= s.slots.Total+s.slots.Extra {
		return nil
	}
	var chosen string
	var best *tenant
	var clock time.Duration
	for name, t := range s.tenants {
		switch {
		case t.waiting == 0:
			continue
		case s.slots.PerTenant > 0 && len(t.starts) >= s.slots.PerTenant:
			continue
		case extra && (len(t.starts) > 0 || now.Before(s.extraAt(t))):
			continue
		}
		c := t.clockAt(now)
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
	best.starts[slot] = now
	s.takenSlots++
	if s.takenSlots == s.slots.Total {
		s.fullSince = now
	}
	return slot
}

// extraAt returns the time at which a waiting tenant without a slot may get an extra
// one: Slots.ExtraAfter after the tenant began to wait, or after the last change of the
// normal slots, whichever is earlier.
func (s *Scheduler) extraAt(t *tenant) time.Time {
	from := t.since
	if s.fullSince.Before(from) {
		from = s.fullSince
	}
	return from.Add(s.slots.ExtraAfter)
}

// Release releases a slot whose run has ended, and charges the tenant for its time.
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

// Cancel releases a slot that found no request to run, without a charge.
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
	began, ok := t.starts[slot]
	if !ok {
		return nil, time.Time{}
	}
	delete(t.starts, slot)
	s.takenSlots--
	return t, began
}

// HasFreeSlot reports whether a slot that is not an extra one is free.
func (s *Scheduler) HasFreeSlot() bool { return s.takenSlots < s.slots.Total }

// IsIdle reports whether a slot is free and no request is expected to wait.
func (s *Scheduler) IsIdle() bool {
	for _, t := range s.tenants {
		if t.waiting > 0 {
			return false
		}
	}
	return s.HasFreeSlot()
}

// NextExtra returns the earliest time at which Next may take an extra slot without any
// other change. It reports false if there is none.
func (s *Scheduler) NextExtra() (at time.Time, ok bool) {
	if s.takenSlots < s.slots.Total || s.takenSlots >= s.slots.Total+s.slots.Extra {
		return time.Time{}, false
	}
	for _, t := range s.tenants {
		if t.waiting == 0 || len(t.starts) > 0 {
			continue
		}
		if e := s.extraAt(t); !ok || e.Before(at) {
			at, ok = e, true
		}
	}
	return at, ok
}
