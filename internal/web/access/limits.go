package access

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits bound what a tenant may use; 0 is unlimited everywhere.
type Limits struct {
	// RequestsPerSecond is how many requests a tenant may make, with bursts of
	// ten seconds' worth.
	RequestsPerSecond float64
	// Runs is how many runs of a tenant may be queued or running.
	Runs int
	// OutputBytes and HeapBytes are how much output and heaps of a tenant may be
	// stored when another run is accepted. Heaps count as large as they are
	// restored.
	OutputBytes, HeapBytes int64
	// Streams is how many event streams a principal may hold open.
	Streams int
	// Sessions is how many sessions a tenant may have, logical and named ones together,
	// and how many conversation contexts.
	Sessions int
	// TaggedHeaps is how many heaps of a tenant may have tags without a run that has
	// left them.
	TaggedHeaps int
}

// Check tells what is wrong with the limits.
func (l Limits) Check() error {
	if l.RequestsPerSecond < 0 || l.Runs < 0 || l.OutputBytes < 0 || l.HeapBytes < 0 || l.Streams < 0 || l.Sessions < 0 || l.TaggedHeaps < 0 {
		return fmt.Errorf("a limit is negative: 0 is unlimited")
	}
	return nil
}

// Usage is what a tenant uses, as of a position in the ledger.
type Usage struct {
	// Runs are queued or running.
	Runs int64
	// OutputBytes and HeapBytes are stored.
	OutputBytes, HeapBytes int64
	// Sessions, Contexts, TaggedHeaps and ShortNames are kept permanently.
	Sessions, Contexts, TaggedHeaps, ShortNames int64
	// Applied is the position of the last event that is counted.
	Applied uint64
}

// Meter reports what a tenant uses, and whether it has something already. It may lag
// behind the ledger.
type Meter interface {
	TenantUsage(ctx context.Context, tenant string) (Usage, error)
	// HasSession reports whether a session has the name.
	HasSession(ctx context.Context, tenant, name string) (bool, error)
	// HasContext reports whether a conversation context has the key.
	HasContext(ctx context.Context, tenant, key string) (bool, error)
	// HasTaggedHeap reports whether a heap has or had tags, or was left by a run.
	HasTaggedHeap(ctx context.Context, tenant, heap string) (bool, error)
}

const (
	// burstSeconds is how many seconds' worth of requests may come at once.
	burstSeconds = 10
	// runRetry and storedRetry are when to ask again for a run: others end all the
	// time, what is stored goes only if an operator makes it.
	runRetry    = 2 * time.Second
	storedRetry = time.Hour
	// maxIdle is how many tenants' rates and accounts are kept before those at rest
	// are forgotten.
	maxIdle = 1024
)

// Quotas holds tenants to their limits. It is safe for concurrent use and
// starts nothing.
type Quotas struct {
	limits Limits
	meter  Meter
	now    func() time.Time

	mu       sync.Mutex
	rates    map[string]*rate.Limiter // by tenant
	streams  map[string]int           // by user
	accounts map[string]*account      // by tenant
	// manyAccounts is how many accounts there are when some are forgotten, forgotten
	// the position up to which the meter counts the runs of those.
	manyAccounts int
	forgotten    uint64

	refusing sync.Mutex
	refusals map[string]uint64 // by limit; guarded by refusing
}

// NewQuotas makes quotas over a meter. now may be nil.
func NewQuotas(l Limits, m Meter, now func() time.Time) *Quotas {
	if now == nil {
		now = time.Now
	}
	return &Quotas{
		limits: l, meter: m, now: now,
		rates: map[string]*rate.Limiter{}, streams: map[string]int{}, accounts: map[string]*account{}, manyAccounts: maxIdle,
	}
}

// Request counts a request and returns a *LimitError when its tenant makes too
// many.
func (q *Quotas) Request(id Identity) error {
	if q == nil || q.limits.RequestsPerSecond == 0 {
		return nil
	}
	_, err := q.count(id, 1)
	return err
}

// Further counts n further requests of a tenant that came in one message, and
// returns how many of them may be handled. Where that is not all of them the error
// is a *LimitError.
func (q *Quotas) Further(id Identity, n int) (granted int, err error) {
	if q == nil || q.limits.RequestsPerSecond == 0 || n <= 0 {
		return n, nil
	}
	return q.count(id, n)
}

// count takes up to n requests from the rate of a tenant. Refused requests do not
// count.
func (q *Quotas) count(id Identity, n int) (granted int, err error) {
	now := q.now()
	q.mu.Lock()
	defer q.mu.Unlock()
	limiter := q.rates[id.Tenant]
	if limiter == nil {
		q.forgetIdle(now)
		limiter = rate.NewLimiter(rate.Limit(q.limits.RequestsPerSecond), max(1, int(q.limits.RequestsPerSecond*burstSeconds)))
		q.rates[id.Tenant] = limiter
	}
	if granted = min(n, max(0, int(limiter.TokensAt(now)+1e-9))); !limiter.AllowN(now, granted) {
		granted = 0
	}
	if granted == n {
		return granted, nil
	}
	r := limiter.ReserveN(now, 1)
	wait := r.DelayFrom(now)
	r.CancelAt(now)
	return granted, q.refused(&LimitError{Limit: "limit-requests", What: "requests per second", Value: q.limits.RequestsPerSecond, RetryAfter: wait})
}

// forgetIdle drops the rates of tenants that have not asked for a while, once
// there are many: an issuer can name any number of tenants.
func (q *Quotas) forgetIdle(now time.Time) {
	if len(q.rates) < maxIdle {
		return
	}
	for tenant, l := range q.rates {
		if l.TokensAt(now) >= float64(l.Burst()) {
			delete(q.rates, tenant)
		}
	}
}

// Stream counts an event stream until done is called, or returns a *LimitError.
func (q *Quotas) Stream(id Identity) (done func(), err error) {
	if q.limits.Streams == 0 {
		return func() {}, nil
	}
	user := id.User()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.streams[user] >= q.limits.Streams {
		return nil, q.refused(&LimitError{
			Limit: "limit-streams", What: "event streams open at once", Value: float64(q.limits.Streams), Used: float64(q.streams[user]),
			RetryAfter: runRetry,
		})
	}
	q.streams[user]++
	return sync.OnceFunc(func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.streams[user]--; q.streams[user] == 0 {
			delete(q.streams, user)
		}
	}), nil
}

// Reservation is room taken for a run that is being submitted. Exactly one of Taken
// and Free must be called.
type Reservation struct {
	q      *Quotas
	tenant string
	seq    uint64 // of the event that the meter will count; 0 until it is known
}

// account is what is known of a tenant's runs.
type account struct {
	// use is the newest reading of the meter.
	use Usage
	// places are of runs that are not in it yet.
	places map[*Reservation]bool
}

// Admit takes room for one more run of a tenant, or returns a *LimitError. Runs
// that the meter does not count yet are counted here, so that however many are
// submitted at once, no more get in than the limit.
func (q *Quotas) Admit(ctx context.Context, tenant string) (*Reservation, error) {
	if q.limits.Runs == 0 && q.limits.OutputBytes == 0 && q.limits.HeapBytes == 0 {
		return &Reservation{}, nil
	}
	use, err := q.meter.TenantUsage(ctx, tenant)
	if err != nil {
		return nil, fmt.Errorf("read what tenant %s uses: %w", tenant, err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	a := q.accounts[tenant]
	if a == nil && use.Applied < q.forgotten {
		q.mu.Unlock()
		use, err = q.meter.TenantUsage(ctx, tenant) // it counts what was forgotten
		q.mu.Lock()
		if err != nil {
			return nil, fmt.Errorf("read what tenant %s uses: %w", tenant, err)
		}
		a = q.accounts[tenant]
	}
	if a == nil {
		q.forgetAccounts(use.Applied)
		a = &account{places: map[*Reservation]bool{}}
		q.accounts[tenant] = a
	}
	// Somebody else may have read the meter since, and dropped places that were
	// not in this reading.
	if use.Applied >= a.use.Applied {
		a.use = use
	}
	for p := range a.places {
		if p.seq != 0 && p.seq <= a.use.Applied {
			delete(a.places, p)
		}
	}
	if err := q.checkQuota(a); err != nil {
		return nil, err
	}
	p := &Reservation{q: q, tenant: tenant}
	a.places[p] = true
	return p, nil
}

// Heaps returns a *LimitError if a tenant has used up what it may store in heaps.
func (q *Quotas) Heaps(ctx context.Context, tenant string) error {
	if q == nil || q.limits.HeapBytes == 0 {
		return nil
	}
	use, err := q.meter.TenantUsage(ctx, tenant)
	if err != nil {
		return fmt.Errorf("read what tenant %s uses: %w", tenant, err)
	}
	return q.overHeaps(use)
}

func (q *Quotas) overHeaps(use Usage) error {
	if l := q.limits; l.HeapBytes > 0 && use.HeapBytes >= l.HeapBytes {
		return q.refused(&LimitError{Limit: "limit-heap-bytes", What: "bytes of stored heaps", Value: float64(l.HeapBytes), Used: float64(use.HeapBytes), RetryAfter: storedRetry, Permanent: true})
	}
	return nil
}

// forgetAccounts drops the accounts whose runs the meter counts at a position, once
// there are many: an issuer can name any number of tenants. The caller must hold mu.
func (q *Quotas) forgetAccounts(applied uint64) {
	if len(q.accounts) < q.manyAccounts {
		return
	}
	q.forgotten = max(q.forgotten, applied)
	for tenant, a := range q.accounts {
		counted := a.use.Applied <= applied
		for p := range a.places {
			counted = counted && p.seq != 0 && p.seq <= applied
		}
		if counted {
			delete(q.accounts, tenant)
		}
	}
	q.manyAccounts = max(maxIdle, 2*len(q.accounts))
}

// checkQuota is called with mu held.
func (q *Quotas) checkQuota(a *account) error {
	use, runs := a.use, a.use.Runs+int64(len(a.places))
	switch l := q.limits; {
	case l.Runs > 0 && runs >= int64(l.Runs):
		return q.refused(&LimitError{Limit: "limit-runs", What: "runs queued or running", Value: float64(l.Runs), Used: float64(runs), RetryAfter: runRetry})
	case l.OutputBytes > 0 && use.OutputBytes >= l.OutputBytes:
		return q.refused(&LimitError{Limit: "limit-output-bytes", What: "bytes of stored output", Value: float64(l.OutputBytes), Used: float64(use.OutputBytes), RetryAfter: storedRetry, Permanent: true})
	default:
		return q.overHeaps(use)
	}
}

// Commit tells that the run is on record at a position, from which on the meter
// counts it.
func (p *Reservation) Commit(seq uint64) {
	if p.q == nil {
		return
	}
	p.q.mu.Lock()
	defer p.q.mu.Unlock()
	p.seq = seq
}

// Release gives the room back: nothing was submitted.
func (p *Reservation) Release() {
	if p.q == nil {
		return
	}
	p.q.mu.Lock()
	defer p.q.mu.Unlock()
	delete(p.q.accounts[p.tenant].places, p)
}
