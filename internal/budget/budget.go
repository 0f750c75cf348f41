// Package budget accounts for the memory that answers, runs and the heap cache
// hold, so that no number of clients can take more than the server has.
//
// A Budget has three shares. Answers take from theirs piece by piece, wait a
// moment for memory, and are refused when none comes free. Runs wait for theirs
// as long as their context allows. The cache takes what fits. No share takes from
// another, so readers do not delay runs.
package budget

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// Options are the sizes of the shares, in bytes. All must be above 0.
type Options struct {
	Answers, Runs, Cache int64
	// Patience is how long an answer waits for memory before it is refused.
	// Default: 2 s.
	Patience time.Duration
}

// Split divides a total, in bytes, into shares: three eighths for answers, half
// for runs, the rest for the cache.
func Split(total int64) Options {
	return Options{Answers: total * 3 / 8, Runs: total / 2, Cache: total / 8}
}

// Budget is safe for concurrent use. It holds nothing to close.
type Budget struct {
	opts Options
	runs *semaphore.Weighted

	runsUsed, runsWaiting, cacheUsed atomic.Int64
	refused                          atomic.Int64

	mu      sync.Mutex
	used    int64            // guarded by mu; bytes that answers hold
	tenants map[string]int64 // guarded by mu; the same by tenant, without zeros
	freed   chan struct{}    // guarded by mu; closed when answers give bytes back
}

// New returns a Budget.
func New(o Options) *Budget {
	if o.Patience == 0 {
		o.Patience = 2 * time.Second
	}
	return &Budget{opts: o, runs: semaphore.NewWeighted(o.Runs), tenants: map[string]int64{}, freed: make(chan struct{})}
}

// RetryAfter is when a client that was refused is told to try again.
const RetryAfter = 2 * time.Second

// ExhaustedError is returned when an answer needs memory that others hold.
type ExhaustedError struct {
	// Need is what was asked for in bytes, Share the size of the share.
	Need, Share int64
}

// Error says what to do.
func (e *ExhaustedError) Error() string {
	return fmt.Sprintf("answer the request: other answers hold the memory that this server has for answers (%d MiB); try again in %.0f s, or ask for less at once",
		e.Share>>20, RetryAfter.Seconds())
}

// IsExhausted reports whether an error is an ExhaustedError.
func IsExhausted(err error) bool {
	_, is := errors.AsType[*ExhaustedError](err)
	return is
}

// Account holds the memory of one answer. It is safe for concurrent use. The
// caller MUST call Release.
type Account struct {
	b      *Budget
	tenant string
	factor int64

	mu       sync.Mutex
	held     int64 // guarded by mu
	released bool  // guarded by mu
}

// Answer opens an account for one answer to a tenant. Each byte that is taken
// counts factor times: an answer holds its content more than once while it is
// encoded.
func (b *Budget) Answer(tenant string, factor int64) *Account {
	return &Account{b: b, tenant: tenant, factor: max(factor, 1)}
}

// Take adds n bytes of content to the account. It waits up to Options.Patience
// for memory that other answers hold and returns an *ExhaustedError when none
// comes free. A tenant never holds more than is left free, so that one tenant
// cannot take the share from the others. A tenant that holds nothing may take
// whatever fits.
func (a *Account) Take(ctx context.Context, n int64) error { return a.take(ctx, n*a.factor) }

// TakeOnce is Take for memory that is held once whatever the answer is, such as a
// buffer.
func (a *Account) TakeOnce(ctx context.Context, n int64) error { return a.take(ctx, n) }

func (a *Account) take(ctx context.Context, n int64) error {
	if n <= 0 {
		return nil
	}
	var late <-chan time.Time
	for {
		ok, freed := a.try(n)
		if ok {
			return nil
		}
		if late == nil {
			if n > a.b.opts.Answers {
				break
			}
			timer := time.NewTimer(a.b.opts.Patience)
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-freed:
			continue
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-late:
		}
		break
	}
	a.b.refused.Add(1)
	return &ExhaustedError{Need: n, Share: a.b.opts.Answers}
}

// try takes n bytes if they are free, and returns otherwise what is closed when
// some are given back.
func (a *Account) try(n int64) (bool, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.released {
		return true, nil // the answer has ended; nothing would give it back
	}
	b := a.b
	b.mu.Lock()
	defer b.mu.Unlock()
	free, own := b.opts.Answers-b.used, b.tenants[a.tenant]
	if n > free || own > 0 && own+n > free-n {
		return false, b.freed
	}
	b.used += n
	b.tenants[a.tenant] = own + n
	a.held += n
	return true, nil
}

// Held returns the bytes that the account holds, for Shrink.
func (a *Account) Held() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held
}

// Shrink gives back all but what Held returned before: an answer that is written
// in pieces needs the memory of one piece.
func (a *Account) Shrink(to int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.giveBack(a.held - to)
}

// Release gives everything back. It may be called more than once; the account
// takes nothing afterwards.
func (a *Account) Release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.released = true
	a.giveBack(a.held)
}

// The caller must hold a.mu.
func (a *Account) giveBack(n int64) {
	if n <= 0 {
		return
	}
	a.held -= n
	b := a.b
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	if b.tenants[a.tenant] -= n; b.tenants[a.tenant] == 0 {
		delete(b.tenants, a.tenant)
	}
	close(b.freed)
	b.freed = make(chan struct{})
}

// Run waits until n bytes of the share of runs are free, or all of the share when
// it is smaller, and takes them. Runs are served in the order in which they ask. An
// error is ctx's. The caller MUST call release; it may do so more than once.
func (b *Budget) Run(ctx context.Context, n int64) (release func(), err error) {
	n = min(max(n, 0), b.opts.Runs)
	b.runsWaiting.Add(1)
	err = b.runs.Acquire(ctx, n)
	b.runsWaiting.Add(-1)
	if err != nil {
		return func() {}, fmt.Errorf("wait for %d MiB of memory for runs: %w", n>>20, err)
	}
	b.runsUsed.Add(n)
	return sync.OnceFunc(func() {
		b.runsUsed.Add(-n)
		b.runs.Release(n)
	}), nil
}

// Cache returns the size of the share of the cache.
func (b *Budget) Cache() int64 { return b.opts.Cache }

// SetCached reports what the cache holds now, in bytes.
func (b *Budget) SetCached(n int64) { b.cacheUsed.Store(n) }

// Usage is what is taken of a share, in bytes.
type Usage struct{ Used, Size int64 }

// Stats is the state of a Budget at one moment.
type Stats struct {
	Answers, Runs, Cache Usage
	// RunsWaiting counts the runs that wait for memory.
	RunsWaiting int64
	// Refused counts the answers that were refused.
	Refused int64
}

// Stats returns the state.
func (b *Budget) Stats() Stats {
	b.mu.Lock()
	used := b.used
	b.mu.Unlock()
	return Stats{
		Answers: Usage{used, b.opts.Answers}, Runs: Usage{b.runsUsed.Load(), b.opts.Runs}, Cache: Usage{b.cacheUsed.Load(), b.opts.Cache},
		RunsWaiting: b.runsWaiting.Load(), Refused: b.refused.Load(),
	}
}

type accountKey struct{}

// With returns a context that carries an account.
func With(ctx context.Context, a *Account) context.Context {
	return context.WithValue(ctx, accountKey{}, a)
}

// From returns the account that ctx carries, or nil.
func From(ctx context.Context) *Account {
	a, _ := ctx.Value(accountKey{}).(*Account)
	return a
}

// Take takes n bytes of content from the account that ctx carries. Without one,
// nothing is accounted for.
func Take(ctx context.Context, n int) error {
	if a := From(ctx); a != nil {
		return a.Take(ctx, int64(n))
	}
	return nil
}

// TakeOnce is Account.TakeOnce on the account that ctx carries.
func TakeOnce(ctx context.Context, n int) error {
	if a := From(ctx); a != nil {
		return a.TakeOnce(ctx, int64(n))
	}
	return nil
}

// Piece calls fn and gives back what it took from the account that ctx carries:
// fn reads and writes one piece of an answer.
func Piece(ctx context.Context, fn func() error) error {
	a := From(ctx)
	if a == nil {
		return fn()
	}
	before := a.Held()
	defer a.Shrink(before)
	return fn()
}
