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
	// Collect, if set, runs the garbage collector, and Cycles counts its completed
	// cycles: runs that give heaps back, and answers that drop requests, make it run
	// when their share is short.
	Collect func()
	Cycles  func() uint64
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
	garbage                          garbage // heaps that runs gave back
	dropped                          garbage // requests that answers gave back

	mu      sync.Mutex
	used    int64            // guarded by mu; bytes that answers hold
	tenants map[string]int64 // guarded by mu; the same by tenant, without zeros
	freed   chan struct{}    // guarded by mu; closed when answers give bytes back
	line    line             // guarded by mu
}

// New returns a Budget.
func New(o Options) *Budget {
	if o.Patience == 0 {
		o.Patience = 2 * time.Second
	}
	return &Budget{opts: o, runs: semaphore.NewWeighted(o.Runs), garbage: garbage{collect: o.Collect, cycles: o.Cycles},
		dropped: garbage{collect: o.Collect, cycles: o.Cycles}, tenants: map[string]int64{}, freed: make(chan struct{})}
}

// RetryAfter is when a client that was refused is asked to try again.
const RetryAfter = 2 * time.Second

// ExhaustedError is returned when an answer needs memory that others hold.
type ExhaustedError struct {
	// Need is what was asked for in bytes, Answer what the answer would hold with it,
	// Share the most that one answer may hold.
	Need, Answer, Share int64
}

// Error says what to do.
func (e *ExhaustedError) Error() string {
	if e.Never() {
		return fmt.Sprintf("answer the request: it takes %d MiB of memory or more, and one answer may take %d MiB on this server; ask for less at once, or start the server with a larger --memory-budget",
			(e.Answer+1<<20-1)>>20, e.Share>>20)
	}
	return fmt.Sprintf("answer the request: other answers hold the memory that this server has for answers; try again in %.0f s, or ask for less at once",
		RetryAfter.Seconds())
}

// Never reports whether the answer takes more than one answer may ever hold: it is of
// no use to try again.
func (e *ExhaustedError) Never() bool { return e.Answer > e.Share }

// IsExhausted reports whether an error is an ExhaustedError.
func IsExhausted(err error) bool {
	_, is := errors.AsType[*ExhaustedError](err)
	return is
}

// Account holds the memory of one answer. It is safe for concurrent use. The
// caller MUST call Release.
type Account struct {
	*holding
	factor int64
}

// holding is what the accounts of one answer share.
type holding struct {
	b      *Budget
	tenant string

	mu       sync.Mutex
	held     int64 // guarded by mu
	released bool  // guarded by mu

	waiter *waiter // guarded by b.mu; while the answer waits for memory, and until it has it

	retries atomic.Int64 // calls of Retry that have not ended: they decide what is a refusal
}

// Answer opens an account for one answer to a tenant. Each byte that is taken
// counts factor times: an answer holds its content more than once while it is
// encoded.
func (b *Budget) Answer(tenant string, factor int64) *Account {
	return &Account{holding: &holding{b: b, tenant: tenant}, factor: max(factor, 1)}
}

// WithFactor returns the account with another factor for what is taken through it.
func (a *Account) WithFactor(factor int64) *Account { return &Account{a.holding, max(factor, 1)} }

// Take adds n bytes of content to the account, or returns an *ExhaustedError. It
// does not wait: the caller may hold what others need (see Retry).
//
// One tenant cannot take the share from the others. Several answers of a tenant never
// hold more than is left free, and its only answer leaves an eighth of the share free.
// That eighth is for tenants that hold no more than a quarter of it: one tenant's
// large answer does not refuse another one's small answer.
func (a *Account) Take(n int64) error { return a.take(n * a.factor) }

// TakeOnce is Take for memory that is held once whatever the answer is, such as a
// buffer.
func (a *Account) TakeOnce(n int64) error { return a.take(n) }

func (a *holding) take(n int64) error {
	if n <= 0 {
		return nil
	}
	if ok, _ := a.try(n, true); ok {
		if n > freeRun {
			a.b.dropped.bound(a.b.answersUsed(), a.b.opts.Answers)
		}
		return nil
	}
	if a.retries.Load() == 0 {
		a.b.refused.Add(1)
	}
	return &ExhaustedError{Need: n, Answer: a.Held() + n, Share: a.b.opts.Answers - a.b.reserve()}
}

// wait returns true once n bytes can be taken, false when ctx or the time is over.
func (a *holding) wait(ctx context.Context, n int64, late <-chan time.Time) bool {
	for {
		ok, freed := a.try(n, false)
		if ok {
			select {
			case <-late: // others were faster each time
				return false
			default:
				return ctx.Err() == nil
			}
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return false
		case <-late:
			return false
		}
	}
}

// try reports whether n bytes are free, takes them if asked to, and returns otherwise
// what is closed when some are given back.
func (a *holding) try(n int64, take bool) (bool, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.released {
		return true, nil // the answer has ended; nothing would give it back
	}
	b := a.b
	b.mu.Lock()
	defer b.mu.Unlock()
	free, own := b.opts.Answers-b.used, b.tenants[a.tenant]
	if own+n > b.small() {
		free -= b.claimed(a.tenant)
	}
	if !b.fits(own, n, free, own == a.held) {
		return false, b.freed
	}
	if !take {
		return true, nil
	}
	b.used += n
	b.tenants[a.tenant] = own + n
	a.held += n
	a.took(n)
	return true, nil
}

// Limit returns n bytes, or half the share if that is less: two answers that need more
// never fit beside each other, and one of them leaves room for a smaller one of another
// tenant.
func (a *holding) Limit(n int64) int64 { return min(n, a.b.opts.Answers/2) }

// Drop gives back everything, like Shrink(0): a large request that takes n bytes and
// that nothing refers to any more. The collector runs before another one takes its
// place if both would not fit.
func (a *holding) Drop(n int64) { a.drop(n, 0) }

// DropTo is Drop for all but n bytes.
func (a *holding) DropTo(n int64) { a.drop(a.Held()-n, n) }

func (a *holding) drop(n, to int64) {
	if n <= 0 {
		return
	}
	held := a.Held()
	a.b.dropped.add(n)
	a.b.dropped.bound(a.b.answersUsed()-held+to, a.b.opts.Answers)
	a.Shrink(to)
}

// answersUsed returns the bytes that answers hold.
func (b *Budget) answersUsed() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// fits reports whether a tenant that holds own bytes may take n of those that are
// free, for its only answer or for one of several.
func (b *Budget) fits(own, n, free int64, only bool) bool {
	if own+n <= b.small() {
		return n <= free
	}
	if n > free-b.reserve() {
		return false
	}
	return only || own+n <= free-n
}

// small is what a tenant may hold with a small answer, in bytes.
func (b *Budget) small() int64 { return b.opts.Answers / 32 }

// reserve is what large answers leave to small ones, in bytes.
func (b *Budget) reserve() int64 { return b.opts.Answers / 8 }

// Held returns the bytes that the account holds, for Shrink.
func (a *holding) Held() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held
}

// Shrink gives back all but what Held returned before: an answer that is written
// in pieces needs the memory of one piece.
func (a *holding) Shrink(to int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.giveBack(a.held - to)
}

// Release gives everything back. It may be called more than once; the account
// takes nothing afterwards.
func (a *holding) Release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.released = true
	a.giveBack(a.held)
}

// The caller must hold a.mu.
func (a *holding) giveBack(n int64) {
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
	b.line.known = false
	close(b.freed)
	b.freed = make(chan struct{})
}

// freeRun is how large a heap may be that is not accounted for, in bytes: most runs
// have smaller ones, and there are few runs at once.
const freeRun = 4 << 20

// RunAccount holds the memory that a run's heaps take in this process. It belongs to
// one goroutine at a time. The caller MUST call Release.
type RunAccount struct {
	b    *Budget
	held int64
}

// Run opens an account for a run.
func (b *Budget) Run() *RunAccount { return &RunAccount{b: b} }

// Reserve waits until n bytes of the share of runs are free, or all of the share when
// it is smaller, and takes them in place of what the account held before: a run holds
// one heap at a time. Runs are served in the order in which they ask. An error is that
// of ctx; the account then holds nothing.
func (a *RunAccount) Reserve(ctx context.Context, n int64) error {
	a.Release()
	if n <= freeRun {
		return nil
	}
	n = min(n, a.b.opts.Runs)
	a.b.runsWaiting.Add(1)
	err := a.b.runs.Acquire(ctx, n)
	a.b.runsWaiting.Add(-1)
	if err != nil {
		return fmt.Errorf("wait for %d MiB of memory for runs: %w", n>>20, err)
	}
	a.held = n
	a.b.garbage.bound(a.b.runsUsed.Add(n), a.b.opts.Runs)
	return nil
}

// Release gives back what the account holds; no reference to it may be left. It may be
// called more than once.
func (a *RunAccount) Release() {
	n := a.held
	if n == 0 {
		return
	}
	a.held = 0
	a.b.garbage.add(n)
	// Before another run takes the place: otherwise both would be in memory.
	a.b.garbage.bound(a.b.runsUsed.Add(-n), a.b.opts.Runs)
	a.b.runs.Release(n)
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
	// Refused counts the requests for memory that were refused: at once, or in Retry
	// after the wait.
	Refused int64
}

// Stats returns the state.
func (b *Budget) Stats() Stats {
	return Stats{
		Answers: Usage{b.answersUsed(), b.opts.Answers}, Runs: Usage{b.runsUsed.Load(), b.opts.Runs}, Cache: Usage{b.cacheUsed.Load(), b.opts.Cache},
		RunsWaiting: b.runsWaiting.Load(), Refused: b.refused.Load(),
	}
}

type (
	accountKey struct{}
	runKey     struct{}
)

// WithRun returns a context that carries the account of a run: what is taken is
// reserved in it.
func WithRun(ctx context.Context, a *RunAccount) context.Context {
	return context.WithValue(ctx, runKey{}, a)
}

// Without returns a context without accounts: what is taken is not accounted for.
// It is for what stays in memory for all.
func Without(ctx context.Context) context.Context {
	return With(WithRun(ctx, nil), nil)
}

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
		return a.Take(int64(n))
	}
	return reserve(ctx, n)
}

func reserve(ctx context.Context, n int) error {
	if a, _ := ctx.Value(runKey{}).(*RunAccount); a != nil {
		return a.Reserve(ctx, int64(n))
	}
	return nil
}

// TakeOnce is Account.TakeOnce on the account that ctx carries.
func TakeOnce(ctx context.Context, n int) error {
	if a := From(ctx); a != nil {
		return a.TakeOnce(int64(n))
	}
	return reserve(ctx, n)
}

// Retry calls fn. When fn returns an *ExhaustedError, Retry gives back what fn took
// from the account that ctx carries, waits for the memory and calls fn again, until
// Options.Patience is over. fn MUST NOT have started an answer when it returns that
// error.
func Retry(ctx context.Context, fn func() error) (err error) {
	a := From(ctx)
	if a == nil {
		return fn()
	}
	a.retries.Add(1)
	defer func() {
		if a.retries.Add(-1) == 0 && IsExhausted(err) {
			a.b.refused.Add(1)
		}
	}()
	before := a.Held()
	err = fn()
	full, exhausted := errors.AsType[*ExhaustedError](err)
	if !exhausted {
		return err
	}
	timer := time.NewTimer(a.b.opts.Patience)
	defer timer.Stop()
	w := &waiter{tenant: a.tenant}
	defer a.leave(w)
	for exhausted {
		a.Shrink(before)
		n := full.Need
		if all := full.Answer - before; all > n {
			n = all // what it gave back must fit too: otherwise it would fail again at once
		}
		a.queue(w, n)
		if full.Never() || !a.wait(ctx, n, timer.C) {
			return err
		}
		err = fn()
		full, exhausted = errors.AsType[*ExhaustedError](err)
	}
	return err
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
