package fairness_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"daybook/internal/resources/fairness"
)

// load simulates runs that occupy a slot for a fixed time each.
type load struct {
	s    *fairness.Scheduler
	now  time.Time
	took map[string]time.Duration // duration of each run, by tenant
	// ends maps the slots in use to the ends of their runs.
	ends map[*fairness.Slot]time.Time
	// order lists the tenants in the order in which their runs started.
	order []string
	used  map[string]time.Duration
}

func newLoad(slots fairness.Slots, took map[string]time.Duration) *load {
	return &load{s: fairness.New(slots), now: time.Unix(0, 0), took: took, ends: map[*fairness.Slot]time.Time{}, used: map[string]time.Duration{}}
}

func (l *load) start() {
	for slot := l.s.Next(l.now); slot != nil; slot = l.s.Next(l.now) {
		l.ends[slot] = l.now.Add(l.took[slot.Tenant])
		name := slot.Tenant
		if slot.Extra {
			name += "+"
		}
		l.order = append(l.order, name)
	}
}

// run advances the time to an end, run by run.
func (l *load) run(until time.Duration) {
	end := time.Unix(0, 0).Add(until)
	for {
		l.start()
		next := end
		if at, ok := l.s.NextExtra(); ok && at.After(l.now) && at.Before(next) {
			next = at
		}
		for _, at := range l.ends {
			if at.Before(next) {
				next = at
			}
		}
		for slot := range l.ends {
			l.used[slot.Tenant] += next.Sub(l.now)
		}
		l.now = next
		if !next.Before(end) {
			return
		}
		for slot, at := range l.ends {
			if !at.After(l.now) {
				delete(l.ends, slot)
				l.s.Release(slot, l.now)
			}
		}
	}
}

const second = time.Second

func TestOrder(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		slots fairness.Slots
		took  map[string]time.Duration
		// waiting is the number of requests per tenant at the start.
		waiting map[string]int
		until   time.Duration
		want    string
	}{
		{
			name: "one tenant", slots: fairness.Slots{Total: 2}, took: map[string]time.Duration{"a": second},
			waiting: map[string]int{"a": 3}, until: 10 * second, want: "a a a",
		},
		{
			name: "equal runs alternate", slots: fairness.Slots{Total: 1}, took: map[string]time.Duration{"a": second, "b": second},
			waiting: map[string]int{"a": 3, "b": 3}, until: 10 * second, want: "a b a b a b",
		},
		{
			name: "runs of no duration alternate", slots: fairness.Slots{Total: 1}, took: map[string]time.Duration{"a": 0, "b": 0},
			waiting: map[string]int{"a": 3, "b": 2}, until: 10 * second, want: "a b a b a",
		},
		{
			name: "a long run is charged with its time", slots: fairness.Slots{Total: 1}, took: map[string]time.Duration{"a": 3 * second, "b": second},
			waiting: map[string]int{"a": 2, "b": 4}, until: 20 * second, want: "a b b b a b",
		},
		{
			name: "a weight of two", slots: fairness.Slots{Total: 1, Weights: map[string]int{"b": 2}}, took: map[string]time.Duration{"a": second, "b": second},
			waiting: map[string]int{"a": 3, "b": 6}, until: 20 * second, want: "a b b a b b a b b",
		},
		{
			name: "a bound for each tenant", slots: fairness.Slots{Total: 3, PerTenant: 1}, took: map[string]time.Duration{"a": second},
			waiting: map[string]int{"a": 2}, until: 1500 * time.Millisecond, want: "a a",
		},
		{
			name: "an extra slot behind runs that do not end", slots: fairness.Slots{Total: 1, Extra: 1, ExtraAfter: second}, took: map[string]time.Duration{"a": time.Hour, "b": second},
			waiting: map[string]int{"a": 4, "b": 3}, until: 10 * second, want: "a b+ b+ b+",
		},
		{
			name: "no extra slot for who has a slot", slots: fairness.Slots{Total: 1, Extra: 2, ExtraAfter: second}, took: map[string]time.Duration{"a": time.Hour},
			waiting: map[string]int{"a": 4}, until: 10 * second, want: "a",
		},
		{
			name: "extra slots are bounded", slots: fairness.Slots{Total: 1, Extra: 1, ExtraAfter: second}, took: map[string]time.Duration{"a": time.Hour, "b": time.Hour, "c": second},
			waiting: map[string]int{"a": 1, "b": 1, "c": 1}, until: 10 * second, want: "a b+",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLoad(tt.slots, tt.took)
			for _, tenant := range []string{"a", "b", "c"} {
				l.s.Expect(tenant, tt.waiting[tenant], l.now)
			}
			l.run(tt.until)
			if got := strings.Join(l.order, " "); got != tt.want {
				t.Errorf("order %q, want %q", got, tt.want)
			}
		})
	}
}

// Tenants that always wait share the slots by weight, for runs of any duration.
func TestSharesOfTime(t *testing.T) {
	t.Parallel()
	l := newLoad(fairness.Slots{Total: 2, Weights: map[string]int{"c": 2}}, map[string]time.Duration{"a": 7 * second, "b": 50 * time.Millisecond, "c": second})
	for _, tenant := range []string{"a", "b", "c"} {
		l.s.SetWaiting(tenant, 1<<30, l.now)
	}
	const until = 1000 * second
	l.run(until)
	for tenant, share := range map[string]float64{"a": 0.25, "b": 0.25, "c": 0.5} {
		if got := l.used[tenant].Seconds() / (2 * until.Seconds()); got < share-0.02 || got > share+0.02 {
			t.Errorf("tenant %s used %.3f of the slots, want %.2f", tenant, got, share)
		}
	}
}

// A tenant that used the slots alone has no debt to one that comes later, and the later
// one has no credit: they alternate at once.
func TestNoCreditForTimeWithoutRequests(t *testing.T) {
	t.Parallel()
	l := newLoad(fairness.Slots{Total: 1}, map[string]time.Duration{"a": second, "b": second})
	l.s.SetWaiting("a", 1<<30, l.now)
	l.run(100*second + second/2)
	l.order = nil
	l.s.SetWaiting("b", 1<<30, l.now)
	l.run(110*second + second/2)
	if got := strings.Join(l.order, " "); !strings.HasPrefix(got, "b a b a b a") {
		t.Errorf("order %q", got)
	}
}

// After the first wait, a tenant does not wait behind the same runs again.
func TestExtraSlotIsThereWhileTheSameRunsKeepAllSlots(t *testing.T) {
	t.Parallel()
	l := newLoad(fairness.Slots{Total: 1, Extra: 1, ExtraAfter: second}, map[string]time.Duration{"a": time.Hour, "b": 10 * time.Millisecond})
	l.s.Expect("a", 4, l.now)
	l.run(5 * second)
	l.s.Expect("b", 1, l.now)
	if slot := l.s.Next(l.now); slot == nil || slot.Tenant != "b" || !slot.Extra {
		t.Errorf("the slot is %+v", slot)
	}
}

func TestCancelChargesNothing(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	s := fairness.New(fairness.Slots{Total: 1})
	s.Expect("a", 1, now)
	s.Expect("b", 1, now)
	slot := s.Next(now)
	if slot.Tenant != "a" || s.HasFreeSlot() || s.Next(now) != nil {
		t.Fatalf("the first slot is %+v", slot)
	}
	s.Cancel(slot)
	s.Cancel(slot) // has no effect
	if !s.HasFreeSlot() {
		t.Fatal("the slot is not free")
	}
	if next := s.Next(now); next == nil || next.Tenant != "b" {
		t.Errorf("the next slot is %+v", next)
	}
	if s.Waiting("a") != 0 {
		t.Error("a waits")
	}
}

// The memory for tenants without requests is bounded.
func TestTenantsAreForgotten(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	s := fairness.New(fairness.Slots{Total: 2})
	s.SetWaiting("always", 1<<30, now)
	for i := range 10_000 {
		s.Expect(fmt.Sprint(i), 1, now)
		for range 2 {
			slot := s.Next(now)
			now = now.Add(second)
			s.Release(slot, now)
		}
	}
	if n := s.Tenants(); n > 10 {
		t.Errorf("%d tenants are remembered", n)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]fairness.Slots{
		"0 slots":      {},
		"each tenant":  {Total: 1, PerTenant: -1},
		"extra slots":  {Total: 1, Extra: -1},
		"negative":     {Total: 1, ExtraAfter: -1},
		`tenant "a"`:   {Total: 1, Weights: map[string]int{"a": 0}},
		"must be 1 or": {Total: 1, Weights: map[string]int{"a": -1}},
	} {
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	if err := (fairness.Slots{Total: 1}).Check(); err != nil {
		t.Error(err)
	}
}

func TestWindow(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, added, want string }{
		{"one session", "a1 a2 a3", "a1 a2 a3"},
		{"sessions in turn", "a1 a2 a3 b1 c1 b2", "a1 b1 c1 a2 b2 a3"},
		{"a new session comes first", "a1 a2 a3 a4 b1", "a1 b1 a2 a3 a4"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var w fairness.Window[string]
			for item := range strings.FieldsSeq(tt.added) {
				w.Add(item[:1], item)
			}
			var got []string
			for item, ok := w.Take(); ok; item, ok = w.Take() {
				got = append(got, item)
			}
			if s := strings.Join(got, " "); s != tt.want || w.Len() != 0 {
				t.Errorf("%q and %d left, want %q", s, w.Len(), tt.want)
			}
		})
	}
}

// A session that was served waits for those that were not, also if its next request
// comes later.
func TestWindowRemembersTurns(t *testing.T) {
	t.Parallel()
	var w fairness.Window[string]
	w.Add("a", "a1")
	_, _ = w.Take()
	w.Add("a", "a2")
	w.Add("b", "b1")
	if got, _ := w.Take(); got != "b1" {
		t.Errorf("got %s", got)
	}
}

func TestNewest(t *testing.T) {
	t.Parallel()
	var w fairness.Window[string]
	for item := range strings.FieldsSeq("a1 b1 a2 c1") {
		w.Add(item[:1], item)
	}
	if got := strings.Join(w.Newest(3), " "); got != "c1 a2 b1" {
		t.Errorf("got %q", got)
	}
	n := 0
	w.Each(func(string) { n++ })
	if got := w.Newest(3); n != 1 || len(got) != 1 || got[0] != "a1" || w.Len() != 0 {
		t.Errorf("got %v, %d left", got, w.Len())
	}
}
