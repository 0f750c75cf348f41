package access

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits are the limits of a tenant. 0 always means unlimited.
type Limits struct {
	// RequestsPerSecond bounds the HTTP requests, MCP messages and ACP requests of a
	// tenant per second. Bursts may have ten seconds' worth of requests.
	RequestsPerSecond float64
	// Runs bounds the queued and running executions of a tenant, with the what-ifs that wait
	// or run.
	Runs int
	// OutputBytes and HeapBytes bound the stored output with artifacts, and the heaps, of a
	// tenant, in bytes, at the time when a run is accepted. Heaps count with their uncompressed
	// size.
	OutputBytes, HeapBytes int64
	// Streams bounds the event streams that a principal holds open.
	Streams int
	// Sessions bounds the sessions of a tenant, logical and named ones together. The
	// same number bounds its conversation contexts.
	Sessions int
	// TaggedHeaps bounds the heaps of a tenant that have tags but were not left by a
	// run.
	TaggedHeaps int
}

// Usage is the usage of a tenant at a position in the ledger.
type Usage struct {
	// Runs is the number of queued and running executions.
	Runs int64
	// OutputBytes and HeapBytes are the stored bytes.
	OutputBytes, HeapBytes int64
	// Sessions, Contexts, TaggedHeaps and ShortNames count what is kept permanently.
	Sessions, Contexts, TaggedHeaps, ShortNames int64
	// Applied is the position of the last counted event.
	Applied uint64
}

// Meter reports the usage of tenants, and whether a tenant already has a session, a
// conversation context or a tagged heap. It may be behind the ledger.
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
	// burstSeconds is the size of a burst, in seconds of the rate.
	burstSeconds = 10
	// runRetry and storedRetry are the retry times after a refusal. Runs and streams end
	// all the time, but stored data is deleted only by an operator.
	runRetry    = 2 * time.Second
	storedRetry = time.Hour
	// maxIdle is the number of tenants from which idle rates and accounts are dropped.
	maxIdle = 1024
)

// Quotas enforces the limits of tenants. It is safe for concurrent use and starts no
// goroutine.
type Quotas struct {
	limits Limits
	meter  Meter
	now    func() time.Time

	mu       sync.Mutex
	rates    map[string]*rate.Limiter // by tenant
	streams  map[string]int           // by user
	accounts map[string]*account      // by tenant
	// dropAccountsAt is the number of accounts from which some are dropped. A usage counts
	// all runs of the dropped accounts if its position is droppedUpTo or later.
	dropAccountsAt int
	droppedUpTo    uint64

	refusing sync.Mutex
	refusals map[string]uint64 // by limit; guarded by refusing
}

// NewQuotas returns Quotas with the usage of a meter. now may be nil.
func NewQuotas(l Limits, m Meter, now func() time.Time) *Quotas {
	if now == nil {
		now = time.Now
	}
	return &Quotas{
		limits: l, meter: m, now: now,
		rates: map[string]*rate.Limiter{}, streams: map[string]int{}, accounts: map[string]*account{}, dropAccountsAt: maxIdle,
	}
}

// CountRequest counts a request. It returns a *LimitError if the tenant makes too many
// requests. A nil Quotas allows all.
func (q *Quotas) CountRequest(id Identity) error {
	if q == nil || q.limits.RequestsPerSecond == 0 {
		return nil
	}
	_, err := q.count(id, 1)
	return err
}

// CountRequests counts n more requests of a tenant that came in the same message, and returns
// the number of granted ones. If that is less than n, the error is a *LimitError.
func (q *Quotas) CountRequests(id Identity, n int) (granted int, err error) {
	if q == nil || q.limits.RequestsPerSecond == 0 || n <= 0 {
		return n, nil
	}
	return q.count(id, n)
}

// count takes up to n requests from the rate of a tenant. Refused requests are not
// counted.
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
	return granted, q.countRefusal(&LimitError{Limit: "limit-requests", What: "requests per second", Value: q.limits.RequestsPerSecond, RetryAfter: wait})
}

// forgetIdle drops the rates of idle tenants if there are many tenants: an issuer can
// name any number of them.
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

// OpenStream counts an event stream until done is called, or returns a *LimitError. done
// MAY be called more than once.
func (q *Quotas) OpenStream(id Identity) (done func(), err error) {
	if q.limits.Streams == 0 {
		return func() {}, nil
	}
	user := id.User()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.streams[user] >= q.limits.Streams {
		return nil, q.countRefusal(&LimitError{
			Limit: "limit-streams", What: "streams open at once", Value: float64(q.limits.Streams), Used: float64(q.streams[user]),
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

// Reservation counts a submission against its tenant's quota. The caller MUST call
// exactly one of Commit and Release.
type Reservation struct {
	q      *Quotas
	tenant string
	seq    uint64 // of the event that the meter will count; 0 until it is known
}

// account holds the known runs of a tenant.
type account struct {
	// use is the newest usage from the meter.
	use Usage
	// reservations are the reservations that use does not count yet.
	reservations map[*Reservation]bool
}

// Admit reserves a run of a tenant, or returns a *LimitError. It counts the runs that
// the meter does not count yet, so that concurrent submissions cannot exceed the limit.
func (q *Quotas) Admit(ctx context.Context, tenant string) (*Reservation, error) {
	if q.limits.Runs == 0 && q.limits.OutputBytes == 0 && q.limits.HeapBytes == 0 {
		return &Reservation{}, nil
	}
	return q.reserve(ctx, tenant, q.checkQuota)
}

// AdmitUnrecorded reserves the execution of code that leaves no event, or returns a
// *LimitError: it counts as a run until the caller calls Reservation.Release. Limits for what
// runs store do not apply. A nil Quotas allows all.
func (q *Quotas) AdmitUnrecorded(ctx context.Context, tenant string) (*Reservation, error) {
	if q == nil || q.limits.Runs == 0 {
		return &Reservation{}, nil
	}
	return q.reserve(ctx, tenant, q.checkRuns)
}

// reserve reserves a run of a tenant unless check refuses it.
func (q *Quotas) reserve(ctx context.Context, tenant string, check func(*account) error) (*Reservation, error) {
	use, err := q.meter.TenantUsage(ctx, tenant)
	if err != nil {
		return nil, fmt.Errorf("read the usage of tenant %s: %w", tenant, err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	a := q.accounts[tenant]
	if a == nil && use.Applied < q.droppedUpTo {
		q.mu.Unlock()
		use, err = q.meter.TenantUsage(ctx, tenant) // counts the runs of dropped accounts
		q.mu.Lock()
		if err != nil {
			return nil, fmt.Errorf("read the usage of tenant %s: %w", tenant, err)
		}
		a = q.accounts[tenant]
	}
	if a == nil {
		q.forgetAccounts(use.Applied)
		a = &account{reservations: map[*Reservation]bool{}}
		q.accounts[tenant] = a
	}
	// Another call may have read the meter later, and deleted reservations that this
	// reading does not count.
	if use.Applied >= a.use.Applied {
		a.use = use
	}
	for p := range a.reservations {
		if p.seq != 0 && p.seq <= a.use.Applied {
			delete(a.reservations, p)
		}
	}
	if err := check(a); err != nil {
		return nil, err
	}
	p := &Reservation{q: q, tenant: tenant}
	a.reservations[p] = true
	return p, nil
}

// CheckHeaps returns a *LimitError if a tenant has reached its limit for stored heaps. A nil
// Quotas allows all.
func (q *Quotas) CheckHeaps(ctx context.Context, tenant string) error {
	if q == nil || q.limits.HeapBytes == 0 {
		return nil
	}
	use, err := q.meter.TenantUsage(ctx, tenant)
	if err != nil {
		return fmt.Errorf("read the usage of tenant %s: %w", tenant, err)
	}
	return q.checkHeaps(use)
}

func (q *Quotas) checkHeaps(use Usage) error {
	if l := q.limits; l.HeapBytes > 0 && use.HeapBytes >= l.HeapBytes {
		return q.countRefusal(&LimitError{Limit: "limit-heap-bytes", What: "bytes of stored heaps", Value: float64(l.HeapBytes), Used: float64(use.HeapBytes), RetryAfter: storedRetry, Permanent: true})
	}
	return nil
}

// forgetAccounts drops accounts if there are many, because an issuer can name any number
// of tenants. It drops an account only if a usage at the position applied counts all runs
// of the account. The caller must hold mu.
func (q *Quotas) forgetAccounts(applied uint64) {
	if len(q.accounts) < q.dropAccountsAt {
		return
	}
	q.droppedUpTo = max(q.droppedUpTo, applied)
	for tenant, a := range q.accounts {
		counted := a.use.Applied <= applied
		for p := range a.reservations {
			counted = counted && p.seq != 0 && p.seq <= applied
		}
		if counted {
			delete(q.accounts, tenant)
		}
	}
	q.dropAccountsAt = max(maxIdle, 2*len(q.accounts))
}

// checkQuota returns a *LimitError if a limit is reached. The caller must hold mu.
func (q *Quotas) checkQuota(a *account) error {
	if err := q.checkRuns(a); err != nil {
		return err
	}
	if l, use := q.limits, a.use; l.OutputBytes > 0 && use.OutputBytes >= l.OutputBytes {
		return q.countRefusal(&LimitError{Limit: "limit-output-bytes", What: "bytes of stored output", Value: float64(l.OutputBytes), Used: float64(use.OutputBytes), RetryAfter: storedRetry, Permanent: true})
	}
	return q.checkHeaps(a.use)
}

// checkRuns returns a *LimitError if the limit of runs is reached. The caller must hold mu.
func (q *Quotas) checkRuns(a *account) error {
	runs := a.use.Runs + int64(len(a.reservations))
	if l := q.limits; l.Runs > 0 && runs >= int64(l.Runs) {
		return q.countRefusal(&LimitError{Limit: "limit-runs", What: "runs queued or running", Value: float64(l.Runs), Used: float64(runs), RetryAfter: runRetry})
	}
	return nil
}

// Commit reports that the run was recorded at position seq. The reservation is dropped
// when the meter has counted that position.
func (p *Reservation) Commit(seq uint64) {
	if p.q == nil {
		return
	}
	p.q.mu.Lock()
	defer p.q.mu.Unlock()
	p.seq = seq
}

// Release drops the reservation because nothing was recorded.
func (p *Reservation) Release() {
	if p.q == nil {
		return
	}
	p.q.mu.Lock()
	defer p.q.mu.Unlock()
	delete(p.q.accounts[p.tenant].reservations, p)
}

// countRefusal counts a refusal and returns err.
func (q *Quotas) countRefusal(err *LimitError) error {
	q.refusing.Lock()
	defer q.refusing.Unlock()
	if q.refusals == nil {
		q.refusals = map[string]uint64{}
	}
	q.refusals[err.Limit]++
	return err
}

// Refusals returns the number of refused requests, streams and changes, by the name of
// the limit. Limits without refusals are not in the map.
func (q *Quotas) Refusals() map[string]uint64 {
	q.refusing.Lock()
	defer q.refusing.Unlock()
	return maps.Clone(q.refusals)
}
