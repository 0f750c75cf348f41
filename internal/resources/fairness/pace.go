package fairness

import (
	"container/list"
	"fmt"
	"time"
)

// Rate is how many bytes are admitted, and how tenants share them.
type Rate struct {
	// PerSecond is how many bytes all tenants together get in a second in the long
	// run; 0 is unlimited.
	PerSecond int64
	// Burst is how many bytes all tenants together get at once after a pause.
	Burst int64
	// Reserve is the part of Burst that only tenants with little use get.
	Reserve int64
	// Little is how many bytes a tenant asks for in ten seconds at most to be one
	// with little use.
	Little int64
}

// littleTime is the time in which a tenant asks for at most Rate.Little bytes.
const littleTime = 10 * time.Second

// Check returns an error that names the first value that is out of range.
func (r Rate) Check() error {
	switch {
	case r == Rate{}:
		return nil
	case r.PerSecond < 1:
		return fmt.Errorf("%d bytes in a second: use 1 or more, or leave the whole rate 0 for no limit", r.PerSecond)
	case r.Burst < 1:
		return fmt.Errorf("a burst of %d bytes: use 1 or more", r.Burst)
	case r.Reserve < 0 || r.Reserve >= r.Burst:
		return fmt.Errorf("a reserve of %d bytes: use 0 to less than the burst of %d", r.Reserve, r.Burst)
	case r.Little < 0:
		return fmt.Errorf("little use of %d bytes: use 0 or more", r.Little)
	}
	return nil
}

// Pace shares a Rate among tenants. A tenant has a clock of the bytes that it was
// admitted. The next bytes are for the waiting tenant whose clock is furthest behind;
// bytes of one tenant are admitted in the order in which it asked. A tenant that
// starts to wait gets at least the clock whose turn it was at the last admission: a pause
// gives no credit. Clocks are equal again once no request waits.
//
// A request is admitted while any bytes are free, whatever its size, and what it
// takes too much is missing for those that follow.
//
// Tenants with little use get the reserve before the others, until they are Rate.Little
// ahead of the tenant whose turn it is. So many of them together cannot keep it waiting.
//
// A Pace is not safe for concurrent use.
type Pace struct {
	rate    Rate
	free    float64   // bytes; below 0 after a large request
	at      time.Time // the time that free is of
	tenants map[string]*pacedTenant
	waiting map[string]*pacedTenant // the tenants with requests that wait
	floor   int64                   // the clock whose turn it was at the last admission; the highest once no request waits
	highest int64                   // of all clocks
	asked   uint64                  // counts requests; it orders tenants with equal clocks
}

// pacedTenant is a tenant that asked for bytes in the last time.
type pacedTenant struct {
	clock   int64
	used    float64 // bytes, which littleTime forgets
	at      time.Time
	waiting list.List // of *Claim
}

// Claim is a request for bytes of a Pace.
type Claim struct {
	// Tenant is the tenant that asked.
	Tenant string
	// Bytes is how many it asked for.
	Bytes int64

	order   uint64
	element *list.Element // nil once admitted or withdrawn
}

// NewPace returns a Pace with a full burst. It panics if Rate.Check fails or the rate
// is unlimited.
func NewPace(r Rate) *Pace {
	if err := r.Check(); err != nil {
		panic("fairness.NewPace: " + err.Error())
	}
	if r.PerSecond == 0 {
		panic("fairness.NewPace: the rate is unlimited")
	}
	return &Pace{rate: r, free: float64(r.Burst), tenants: map[string]*pacedTenant{}, waiting: map[string]*pacedTenant{}}
}

// Ask adds a request of a tenant for n bytes. Next admits it.
func (p *Pace) Ask(tenant string, n int64, now time.Time) *Claim {
	t := p.tenants[tenant]
	if t == nil {
		p.forget(now)
		t = &pacedTenant{at: now}
		p.tenants[tenant] = t
	}
	if t.waiting.Len() == 0 {
		t.clock = max(t.clock, p.floor)
		p.waiting[tenant] = t
	}
	p.asked++
	c := &Claim{Tenant: tenant, Bytes: max(n, 0), order: p.asked}
	c.element = t.waiting.PushBack(c)
	return c
}

// Withdraw removes a request that waits. It reports false if the request was admitted.
func (p *Pace) Withdraw(c *Claim) bool {
	if c.element == nil {
		return false
	}
	t := p.tenants[c.Tenant]
	t.waiting.Remove(c.element)
	c.element = nil
	if t.waiting.Len() == 0 {
		delete(p.waiting, c.Tenant)
	}
	return true
}

// Next admits the request whose turn it is. Without one it returns nil and the time
// until there may be one, 0 if no request waits.
func (p *Pace) Next(now time.Time) (*Claim, time.Duration) {
	p.refill(now)
	var first, little *Claim
	for _, t := range p.waiting {
		c := t.waiting.Front().Value.(*Claim)
		if first == nil || p.before(c, first) {
			first = c
		}
		if p.isLittle(t, c, now) && (little == nil || p.before(c, little)) {
			little = c
		}
	}
	if little != nil && p.tenants[little.Tenant].clock-p.tenants[first.Tenant].clock > p.rate.Little {
		little = nil
	}
	switch {
	case first == nil:
		p.floor = p.highest
		return nil, 0
	case p.free > float64(p.rate.Reserve):
		p.admit(first, first, now)
		return first, 0
	case little != nil && p.free > 0:
		p.admit(little, first, now)
		return little, 0
	case little != nil:
		return nil, p.until(0)
	default:
		return nil, p.until(p.rate.Reserve)
	}
}

func (p *Pace) before(a, b *Claim) bool {
	x, y := p.tenants[a.Tenant].clock, p.tenants[b.Tenant].clock
	return x < y || x == y && a.order < b.order
}

func (p *Pace) isLittle(t *pacedTenant, c *Claim, now time.Time) bool {
	return p.recent(t, now)+float64(c.Bytes) <= float64(p.rate.Little)
}

// recent is what a tenant used in the last time, in bytes.
func (p *Pace) recent(t *pacedTenant, now time.Time) float64 {
	return max(t.used-float64(p.rate.Little)*max(now.Sub(t.at), 0).Seconds()/littleTime.Seconds(), 0)
}

// admit admits a request while it is the turn of first.
func (p *Pace) admit(c, first *Claim, now time.Time) {
	t := p.tenants[c.Tenant]
	p.floor = max(p.floor, p.tenants[first.Tenant].clock)
	p.Withdraw(c)
	t.clock += c.Bytes
	p.highest = max(p.highest, t.clock)
	// More than twice as much makes no difference but the time to forget it.
	t.used, t.at = min(p.recent(t, now)+float64(c.Bytes), 2*float64(p.rate.Little)), now
	p.free -= float64(c.Bytes)
}

func (p *Pace) refill(now time.Time) {
	if !p.at.IsZero() {
		p.free = min(p.free+float64(p.rate.PerSecond)*max(now.Sub(p.at), 0).Seconds(), float64(p.rate.Burst))
	}
	p.at = now
}

// until is the time until more than some bytes are free.
func (p *Pace) until(bytes int64) time.Duration {
	missing := float64(bytes) - p.free + 1
	return max(time.Duration(missing/float64(p.rate.PerSecond)*float64(time.Second)), time.Millisecond)
}

// forget drops the tenants that wait for nothing, are not ahead of the last
// admission, and whose use is forgotten.
func (p *Pace) forget(now time.Time) {
	for name, t := range p.tenants {
		if t.waiting.Len() == 0 && t.clock <= p.floor && p.recent(t, now) == 0 {
			delete(p.tenants, name)
		}
	}
}
