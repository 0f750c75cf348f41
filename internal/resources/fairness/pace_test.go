package fairness_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"daybook/internal/resources/fairness"
)

// writers simulates tenants that request a piece whenever the last one was admitted.
type writers struct {
	p     *fairness.Pace
	now   time.Time
	piece map[string]int64
	got   map[string]int64
}

func newWriters(r fairness.Rate, piece map[string]int64) *writers {
	w := &writers{p: fairness.NewPace(r), now: time.Unix(0, 0), piece: piece, got: map[string]int64{}}
	for _, tenant := range slices.Sorted(maps.Keys(piece)) {
		w.p.Ask(tenant, piece[tenant], w.now)
	}
	return w
}

// run advances the time by d, with all admissions.
func (w *writers) run(d time.Duration) {
	for end := w.now.Add(d); ; {
		c, pause := w.p.Next(w.now)
		if c == nil {
			if pause == 0 || w.now.Add(pause).After(end) {
				w.now = end
				return
			}
			w.now = w.now.Add(pause)
			continue
		}
		w.got[c.Tenant] += c.Bytes
		w.p.Ask(c.Tenant, w.piece[c.Tenant], w.now)
	}
}

func near(t *testing.T, what string, got, want, tolerance int64) {
	t.Helper()
	if got < want-tolerance || got > want+tolerance {
		t.Errorf("%s: %d bytes, want %d, %d more or less", what, got, want, tolerance)
	}
}

func TestPaceKeepsItsRate(t *testing.T) {
	t.Parallel()
	rate := fairness.Rate{PerSecond: 1000, Burst: 5000, Reserve: 1000}
	w := newWriters(rate, map[string]int64{"a": 100})
	w.run(0)
	near(t, "the burst", w.got["a"], 4000, 100)
	w.run(10 * time.Second)
	near(t, "the burst and ten seconds", w.got["a"], 4000+10_000, 200)
	// A pause of any length gives one burst.
	before := w.got["a"]
	w.now = w.now.Add(time.Hour)
	w.run(0)
	near(t, "the burst after an hour", w.got["a"]-before, 4000, 100)
}

func TestPaceIsSharedByTenants(t *testing.T) {
	t.Parallel()
	// Neither the sizes of requests nor the number of waiting requests changes the
	// shares of tenants.
	w := newWriters(fairness.Rate{PerSecond: 1000, Burst: 1000}, map[string]int64{"a": 500, "b": 50, "c": 5})
	for range 20 {
		w.p.Ask("b", 50, w.now)
	}
	w.run(60 * time.Second)
	for tenant, got := range w.got {
		near(t, tenant, got, 61_000/3, 800)
	}
	// A tenant gets only its share after a time without requests.
	w.piece["d"] = 100
	w.p.Ask("d", 100, w.now)
	w.run(40 * time.Second)
	near(t, "a later tenant", w.got["d"], 10_000, 800)
}

func TestPaceAdmitsLittleAtOnce(t *testing.T) {
	t.Parallel()
	rate := fairness.Rate{PerSecond: 1000, Burst: 5000, Reserve: 2000, Little: 100}
	w := newWriters(rate, map[string]int64{"a": 600, "b": 600})
	for i := range 20 {
		w.run(time.Second)
		// This is little use: 90 bytes in ten seconds, and Rate.Little is 100.
		c := w.p.Ask("quiet", 9, w.now)
		if got, _ := w.p.Next(w.now); got != c {
			t.Fatalf("request %d of a quiet tenant waits", i)
		}
	}
	w.p.Ask("quiet", 101, w.now)
	if got, _ := w.p.Next(w.now); got != nil {
		t.Error("much output of a tenant took the reserve")
	}
}

func TestManyWithLittleUseLeaveMuchItsTurn(t *testing.T) {
	t.Parallel()
	// Together they request more than the rate, each one little.
	pieces := map[string]int64{"loud": 120}
	for i := range 30 {
		pieces[fmt.Sprint(i)] = 10
	}
	w := newWriters(fairness.Rate{PerSecond: 200, Burst: 1000, Reserve: 400, Little: 100}, pieces)
	w.run(time.Minute)
	before := w.got["loud"]
	w.run(5 * time.Minute)
	near(t, "a tenant with much output among many with little", w.got["loud"]-before, 300*200/31, 300)
}

func TestPaceLetsRequestsBeWithdrawn(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	p := fairness.NewPace(fairness.Rate{PerSecond: 10, Burst: 10})
	first, second, third := p.Ask("a", 20, now), p.Ask("a", 5, now), p.Ask("a", 5, now)
	if got, _ := p.Next(now); got != first {
		t.Fatal("a request larger than the burst waits")
	}
	if p.Withdraw(first) {
		t.Error("an admitted request was withdrawn")
	}
	if !p.Withdraw(second) || p.Withdraw(second) {
		t.Error("a request that waits can be withdrawn once")
	}
	got, pause := p.Next(now)
	if got != nil || pause < time.Second || pause > 1200*time.Millisecond {
		t.Fatalf("admitted %v, or waits %s; 10 bytes and 1 are missing", got, pause)
	}
	if got, _ = p.Next(now.Add(pause)); got != third {
		t.Error("the request behind a withdrawn one is not admitted")
	}
	if got, pause = p.Next(now.Add(pause)); got != nil || pause != 0 {
		t.Error("something waits")
	}
}

func TestPaceForgetsTenants(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	p := fairness.NewPace(fairness.Rate{PerSecond: 1000, Burst: 1000, Little: 10})
	for i := range 100 {
		p.Ask(string(rune('a'+i)), 1, now)
		for c, _ := p.Next(now); c != nil; c, _ = p.Next(now) {
		}
		now = now.Add(time.Minute)
	}
	if n := p.Tenants(); n > 2 {
		t.Errorf("%d tenants are remembered", n)
	}
}

func TestRateCheck(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		rate fairness.Rate
		ok   bool
	}{
		{"none", fairness.Rate{}, true},
		{"all", fairness.Rate{PerSecond: 1, Burst: 2, Reserve: 1, Little: 1}, true},
		{"no rate", fairness.Rate{Burst: 1}, false},
		{"no burst", fairness.Rate{PerSecond: 1}, false},
		{"all is reserved", fairness.Rate{PerSecond: 1, Burst: 1, Reserve: 1}, false},
		{"negative use", fairness.Rate{PerSecond: 1, Burst: 1, Little: -1}, false},
	} {
		if err := test.rate.Check(); (err == nil) != test.ok {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}
