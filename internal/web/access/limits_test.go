package access_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"daybook/internal/web/access"
)

// meter reports a tenant's usage that is behind the submissions until the test updates
// it.
type meter struct {
	mu  sync.Mutex
	use access.Usage
	err error
	has string // the only thing that the tenant has, if not empty
}

func (m *meter) known(name string) (bool, error) { return name == m.has, m.err }

func (m *meter) HasSession(_ context.Context, _, name string) (bool, error)    { return m.known(name) }
func (m *meter) HasContext(_ context.Context, _, key string) (bool, error)     { return m.known(key) }
func (m *meter) HasTaggedHeap(_ context.Context, _, heap string) (bool, error) { return m.known(heap) }

func (m *meter) TenantUsage(context.Context, string) (access.Usage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.use, m.err
}

func (m *meter) set(u access.Usage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.use = u
}

func wantLimit(t *testing.T, err error, limit string) *access.LimitError {
	t.Helper()
	over, ok := errors.AsType[*access.LimitError](err)
	if !ok || over.Limit != limit || over.RetryAfterSeconds() < 1 || !strings.Contains(err.Error(), limit) {
		t.Fatalf("got %v, want a LimitError of %s", err, limit)
	}
	return over
}

func TestAdmission(t *testing.T) {
	t.Parallel()
	const gib = 1 << 30
	for name, test := range map[string]struct {
		limits access.Limits
		use    access.Usage
		over   string
	}{
		"unlimited":      {access.Limits{}, access.Usage{Runs: 1e6, OutputBytes: gib, HeapBytes: gib}, ""},
		"below":          {access.Limits{Runs: 3, OutputBytes: gib, HeapBytes: gib}, access.Usage{Runs: 2, OutputBytes: gib - 1, HeapBytes: gib - 1}, ""},
		"too many runs":  {access.Limits{Runs: 3}, access.Usage{Runs: 3}, "limit-runs"},
		"many runs":      {access.Limits{Runs: 2_000_000}, access.Usage{Runs: 2_000_000}, "limit-runs: 2000000, 2000000 in use"},
		"too much text":  {access.Limits{OutputBytes: gib}, access.Usage{OutputBytes: gib}, "limit-output-bytes"},
		"too many heaps": {access.Limits{HeapBytes: gib}, access.Usage{HeapBytes: gib + 1}, "limit-heap-bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := access.NewQuotas(test.limits, &meter{use: test.use}, nil)
			if err := q.CheckHeaps(t.Context(), "acme"); test.over == "limit-heap-bytes" {
				wantLimit(t, err, test.over)
			} else if err != nil {
				t.Errorf("Heaps: %v", err)
			}
			place, err := q.Admit(t.Context(), "acme")
			switch {
			case test.over != "":
				limit, _, _ := strings.Cut(test.over, ":")
				if over := wantLimit(t, err, limit); !strings.Contains(over.Error(), test.over) {
					t.Errorf("%v does not say %q", over, test.over)
				}
			case err != nil:
				t.Error(err)
			default:
				place.Commit(1)
			}
		})
	}
}

// Limits of any size are written as an operator writes them.
func TestLimitMessages(t *testing.T) {
	t.Parallel()
	for value, want := range map[float64]string{1e7: "10000000,", 1 << 40: "1099511627776,", 0.5: "0.5,"} {
		err := &access.LimitError{Limit: "limit-heap-bytes", What: "bytes of stored heaps", Value: value, Used: 2e7, Permanent: true}
		if text := err.Error(); !strings.Contains(text, "(limit-heap-bytes: "+want+" 20000000 in use)") {
			t.Errorf("%g: %s", value, text)
		}
	}
}

// TestReservations checks that a run is counted exactly once from its admission until the
// meter counts it, and after that.
func TestReservations(t *testing.T) {
	t.Parallel()
	m := &meter{}
	q := access.NewQuotas(access.Limits{Runs: 2}, m, nil)
	admit := func() *access.Reservation {
		t.Helper()
		p, err := q.Admit(t.Context(), "acme")
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	full := func() {
		t.Helper()
		_, err := q.Admit(t.Context(), "acme")
		wantLimit(t, err, "limit-runs")
	}
	first, second := admit(), admit()
	full()
	if _, err := q.Admit(t.Context(), "other"); err != nil {
		t.Errorf("another tenant: %v", err)
	}
	first.Commit(7)
	full()
	m.set(access.Usage{Runs: 1, Applied: 7})
	full() // the meter counts the first, not the second
	second.Release()
	third := admit()
	third.Commit(9)
	full()
	m.set(access.Usage{Runs: 1, Applied: 9}) // the first has ended
	admit().Commit(10)
	full()
}

// Code that is not recorded counts as a run until it ends, and what is stored does not refuse it.
func TestUnrecordedCodeIsCounted(t *testing.T) {
	t.Parallel()
	q := access.NewQuotas(access.Limits{Runs: 2, OutputBytes: 1, HeapBytes: 1}, &meter{use: access.Usage{Runs: 1, OutputBytes: 1, HeapBytes: 1}}, nil)
	first, err := q.AdmitUnrecorded(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	_, err = q.AdmitUnrecorded(t.Context(), "acme")
	wantLimit(t, err, "limit-runs")
	_, err = q.Admit(t.Context(), "acme")
	wantLimit(t, err, "limit-runs")
	first.Release()
	if next, err := q.AdmitUnrecorded(t.Context(), "acme"); err != nil {
		t.Error(err)
	} else {
		next.Release()
	}
	for _, unlimited := range []*access.Quotas{nil, access.NewQuotas(access.Limits{}, &meter{use: access.Usage{Runs: 1e6}}, nil)} {
		if p, err := unlimited.AdmitUnrecorded(t.Context(), "acme"); err != nil {
			t.Error(err)
		} else {
			p.Release()
		}
	}
}

// TestOldUsage admits runs while readings of the meter arrive out of order.
func TestOldUsage(t *testing.T) {
	t.Parallel()
	m := &meter{use: access.Usage{Applied: 5}}
	q := access.NewQuotas(access.Limits{Runs: 2}, m, nil)
	p, err := q.Admit(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	p.Commit(6)
	m.set(access.Usage{Runs: 1, Applied: 6})
	if p, err = q.Admit(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	p.Commit(7)
	m.set(access.Usage{Applied: 5}) // an older reading that arrives late
	_, err = q.Admit(t.Context(), "acme")
	wantLimit(t, err, "limit-runs")
}

// With many tenants, those whose runs the meter counts are dropped. None of their runs
// is lost from the count, and the other tenants stay.
func TestIdleAccountsAreDropped(t *testing.T) {
	t.Parallel()
	m := &meter{use: access.Usage{Applied: 5}}
	q := access.NewQuotas(access.Limits{Runs: 1}, m, nil)
	admit := func(tenant string) *access.Reservation {
		t.Helper()
		p, err := q.Admit(t.Context(), tenant)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	pending := admit("pending")
	for n := range 5000 {
		admit(fmt.Sprint("t", n)).Commit(6)
		m.set(access.Usage{Applied: 6}) // counts the run of another tenant
	}
	if n := q.Accounts(); n > 1500 {
		t.Errorf("%d accounts are kept", n)
	}
	_, err := q.Admit(t.Context(), "pending")
	wantLimit(t, err, "limit-runs")
	pending.Release()
	admit("pending").Commit(7)
	// An old reading that lacks a run of a dropped account is repeated.
	stale := &staleOnce{Meter: m}
	m.set(access.Usage{Applied: 6, Runs: 1})
	_, err = q.SetMeter(stale).Admit(t.Context(), "t0")
	wantLimit(t, err, "limit-runs")
}

// staleOnce returns an old usage once.
type staleOnce struct {
	access.Meter
	asked bool
}

func (m *staleOnce) TenantUsage(ctx context.Context, tenant string) (access.Usage, error) {
	if !m.asked {
		m.asked = true
		return access.Usage{Applied: 5}, nil
	}
	return m.Meter.TenantUsage(ctx, tenant)
}

func TestMeterFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk on fire")
	m := &meter{err: broken}
	q := access.NewQuotas(access.Limits{Runs: 1}, m, nil)
	if _, err := q.Admit(t.Context(), "acme"); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	m.err = nil
	if _, err := q.Admit(t.Context(), "acme"); err != nil {
		t.Errorf("the refused run is still counted: %v", err)
	}
}

func TestConcurrentAdmission(t *testing.T) {
	t.Parallel()
	const limit, clients = 10, 200
	q := access.NewQuotas(access.Limits{Runs: limit}, &meter{}, nil)
	var in sync.Map
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			p, err := q.Admit(context.Background(), "acme")
			if err == nil {
				in.Store(i, p)
			}
		})
	}
	wg.Wait()
	n := 0
	in.Range(func(any, any) bool { n++; return true })
	if n != limit {
		t.Errorf("%d are admitted, the limit is %d", n, limit)
	}
}

func TestRequestRate(t *testing.T) {
	t.Parallel()
	c := newClock()
	q := access.NewQuotas(access.Limits{RequestsPerSecond: 2}, &meter{}, c.now)
	acme, other := access.Identity{Tenant: "acme"}, access.Identity{Tenant: "other"}
	for i := range 20 {
		if err := q.CountRequest(acme); err != nil {
			t.Fatalf("request %d of the burst: %v", i, err)
		}
	}
	over := wantLimit(t, q.CountRequest(acme), "limit-requests")
	if over.RetryAfter != 500*time.Millisecond {
		t.Errorf("RetryAfter is %s, want 500ms", over.RetryAfter)
	}
	if err := q.CountRequest(other); err != nil {
		t.Errorf("another tenant: %v", err)
	}
	c.advance(over.RetryAfter)
	if err := q.CountRequest(acme); err != nil {
		t.Errorf("after the wait: %v", err)
	}
	wantLimit(t, q.CountRequest(acme), "limit-requests")
}

func TestStreams(t *testing.T) {
	t.Parallel()
	q := access.NewQuotas(access.Limits{Streams: 2}, &meter{}, nil)
	ada := access.Identity{Tenant: "acme", Principal: "ada"}
	first, err := q.OpenStream(ada)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.OpenStream(ada); err != nil {
		t.Fatal(err)
	}
	_, err = q.OpenStream(ada)
	wantLimit(t, err, "limit-streams")
	for _, who := range []access.Identity{{Tenant: "acme", Principal: "bob"}, {Tenant: "other", Principal: "ada"}} {
		if _, err := q.OpenStream(who); err != nil {
			t.Errorf("%+v: %v", who, err)
		}
	}
	first()
	first() // once only
	if _, err := q.OpenStream(ada); err != nil {
		t.Error(err)
	}
	_, err = q.OpenStream(ada)
	wantLimit(t, err, "limit-streams")
}

// Further requests in one message count like the first: as many are granted as the rate
// allows, and refused ones do not count.
func TestFurtherRequests(t *testing.T) {
	t.Parallel()
	c := newClock()
	q := access.NewQuotas(access.Limits{RequestsPerSecond: 2}, nil, c.now)
	acme := access.Identity{Tenant: "acme"}
	if err := q.CountRequest(acme); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		asked, granted int
		later          time.Duration
	}{{5, 5, 0}, {0, 0, 0}, {-1, -1, 0}, {100, 14, 0}, {100, 0, 0}, {3, 2, time.Second}, {1, 1, 500 * time.Millisecond}} {
		c.advance(step.later)
		n, err := q.CountRequests(acme, step.asked)
		if n != step.granted {
			t.Errorf("%d of %d were granted, want %d", n, step.asked, step.granted)
		}
		if n == step.asked {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		if over := wantLimit(t, err, "limit-requests"); over.RetryAfter != 500*time.Millisecond {
			t.Errorf("try again in %s, want 0.5 s", over.RetryAfter)
		}
	}
	var none *access.Quotas
	if n, err := none.CountRequests(acme, 1000); n != 1000 || err != nil || none.CountRequest(acme) != nil {
		t.Errorf("no quotas granted %d: %v", n, err)
	}
}
