package fairness

import (
	"container/list"
	"fmt"
	"time"
)

// Rate is a number of admitted bytes per second, and how tenants share them.
type Rate struct {
	// PerSecond is the number of bytes per second for all tenants together, on average.
	// 0 means unlimited.
	PerSecond int64
	// Burst is the number of bytes for all tenants together at once after a pause.
	Burst int64
	// Reserve is the part of Burst that only tenants with little use get.
	Reserve int64
	// Little is the maximum number of bytes in ten seconds for a tenant with little use.
	Little int64
}

// littleTime is the time that Rate.Little refers to.
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

// Pace shares a Rate among tenants. Each tenant has a clock that advances by its
// admitted bytes. The next bytes go to the waiting tenant with the lowest clock. The
// requests of one tenant are admitted in order. When a tenant starts to wait, its clock
// is raised at least to the clock of the tenant whose turn it was at the last
// admission, so that a pause gives no credit. When no request waits, all clocks are
// equal again.
//
// A request of any size is admitted while any bytes are free. If it takes more than
// those, the following requests wait longer.
//
// Tenants with little use get the reserve before the others, until they are Rate.Little
// ahead of the tenant whose turn it is. Therefore even many such tenants together cannot
// keep that tenant waiting.
//
// A Pace is not safe for concurrent use.
type Pace struct {
	rate         Rate
	free         float64   // bytes; negative after a large request
	refilledAt   time.Time // time that free refers to
	tenants      map[string]*pacedTenant
	waiting      map[string]*pacedTenant // tenants with waiting requests
	floor        int64                   // clock of the tenant whose turn it was at the last admission; highest when no request waits
	highest      int64                   // maximum of all clocks
	requestCount uint64                  // counts requests; orders tenants with equal clocks
}

// pacedTenant is a tenant that requested bytes recently.
type pacedTenant struct {
	clock   int64
	used    float64   // bytes, decreasing to 0 over littleTime
	at      time.Time // time that used refers to
	waiting list.List // of *Claim
}

// Claim is a request for bytes of a Pace.
type Claim struct {
	// Tenant is the tenant of the request.
	Tenant string
	// Bytes is the requested number of bytes.
	Bytes int64

	order   uint64
	element *list.Element // nil after admission or withdrawal
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

// Ask adds a request of a tenant for n bytes. A later Next admits it.
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
	p.requestCount++
	c := &Claim{Tenant: tenant, Bytes: max(n, 0), order: p.requestCount}
	c.element = t.waiting.PushBack(c)
	return c
}

// Withdraw removes a waiting request. It reports false if the request was admitted or
// withdrawn before.
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

// Next admits and returns the request whose turn it is. If none can be admitted now, it
// returns nil and the time until one may be, or 0 if no request waits.
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
		return nil, p.timeUntil(0)
	default:
		return nil, p.timeUntil(p.rate.Reserve)
	}
}

func (p *Pace) before(a, b *Claim) bool {
	x, y := p.tenants[a.Tenant].clock, p.tenants[b.Tenant].clock
	return x < y || x == y && a.order < b.order
}

func (p *Pace) isLittle(t *pacedTenant, c *Claim, now time.Time) bool {
	return p.recentUse(t, now)+float64(c.Bytes) <= float64(p.rate.Little)
}

// recentUse returns the recent use of a tenant, in bytes.
func (p *Pace) recentUse(t *pacedTenant, now time.Time) float64 {
	return max(t.used-float64(p.rate.Little)*max(now.Sub(t.at), 0).Seconds()/littleTime.Seconds(), 0)
}

// admit admits a request while it is the turn of first.
func (p *Pace) admit(c, first *Claim, now time.Time) {
	t := p.tenants[c.Tenant]
	p.floor = max(p.floor, p.tenants[first.Tenant].clock)
	p.Withdraw(c)
	t.clock += c.Bytes
	p.highest = max(p.highest, t.clock)
	// A larger value would only take longer to decrease.
	t.used, t.at = min(p.recentUse(t, now)+float64(c.Bytes), 2*float64(p.rate.Little)), now
	p.free -= float64(c.Bytes)
}

func (p *Pace) refill(now time.Time) {
	if !p.refilledAt.IsZero() {
		p.free = min(p.free+float64(p.rate.PerSecond)*max(now.Sub(p.refilledAt), 0).Seconds(), float64(p.rate.Burst))
	}
	p.refilledAt = now
}

// timeUntil returns the time until more than a number of bytes are free.
func (p *Pace) timeUntil(bytes int64) time.Duration {
	missing := float64(bytes) - p.free + 1
	return max(time.Duration(missing/float64(p.rate.PerSecond)*float64(time.Second)), time.Millisecond)
}

// forget drops the tenants without waiting requests and recent use whose clocks are not
// ahead of the last admission.
func (p *Pace) forget(now time.Time) {
	for name, t := range p.tenants {
		if t.waiting.Len() == 0 && t.clock <= p.floor && p.recentUse(t, now) == 0 {
			delete(p.tenants, name)
		}
	}
}
