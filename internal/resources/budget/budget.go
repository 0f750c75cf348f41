// Package budget accounts for the memory that answers, runs and the heap cache hold, so
// that any number of clients together take no more than the server has.
//
// A Budget has three shares. Answers take memory from their share piece by piece, wait
// up to Options.Patience for it, and are refused after that. Runs wait for memory as
// long as their context allows. The cache takes only what fits. No share takes from
// another one, so readers do not delay runs.
//
// The size of the budget is decided in embed/memory.go.
//
// The files, in reading order:
//
//   - budget.go: Budget: decides whether an answer or a run gets memory, waits or is refused;
//     the accounts
//   - line.go: decides which of the large answers that wait gets memory next
//   - garbage.go: decides when to run the garbage collector
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

// Options holds the sizes of the shares, in bytes. All MUST be positive.
type Options struct {
	Answers, Runs, Cache int64
	// Patience is the maximum time that an answer waits for memory. Default: 2 s.
	Patience time.Duration
	// Collect runs the garbage collector, and Cycles returns the number of its
	// completed cycles. If Collect is set, a share that is short of memory runs the
	// collector when runs return heaps or answers drop requests.
	Collect func()
	Cycles  func() uint64
}

// Split divides a total, in bytes, into shares: three eighths for answers, half for
// runs, the rest for the cache.
func Split(total int64) Options {
	return Options{Answers: total * 3 / 8, Runs: total / 2, Cache: total / 8}
}

// Budget accounts for memory. It is safe for concurrent use and needs no closing.
type Budget struct {
	opts Options
	runs *semaphore.Weighted

	runsUsed, runsWaiting, cacheUsed atomic.Int64
	refused                          atomic.Int64
	garbage                          garbage // heaps that runs returned
	droppedRequests                  garbage // requests that answers dropped

	mu       sync.Mutex
	used     int64            // guarded by mu; bytes that answers hold
	tenants  map[string]int64 // guarded by mu; the same by tenant, without zeros
	freed    chan struct{}    // guarded by mu; closed when answers return bytes
	waitLine line             // guarded by mu
}

// New returns a Budget with nothing taken.
func New(o Options) *Budget {
	if o.Patience == 0 {
		o.Patience = 2 * time.Second
	}
	return &Budget{opts: o, runs: semaphore.NewWeighted(o.Runs), garbage: garbage{collect: o.Collect, cycles: o.Cycles},
		droppedRequests: garbage{collect: o.Collect, cycles: o.Cycles}, tenants: map[string]int64{}, freed: make(chan struct{})}
}

// RetryAfter is the retry time for a refused client.
const RetryAfter = 2 * time.Second

// ExhaustedError is returned if an answer needs memory that others hold.
type ExhaustedError struct {
	// Need is the requested memory in bytes, Answer the total that the answer would
	// hold with it, and Share the maximum for one answer.
	Need, Answer, Share int64
}

// Error returns a message that says what to do.
func (e *ExhaustedError) Error() string {
	if e.IsPermanent() {
		return fmt.Sprintf("answer the request: it takes %d MiB of memory or more, and one answer may take %d MiB on this server; ask for less at once, or start the server with a larger --memory-budget",
			(e.Answer+1<<20-1)>>20, e.Share>>20)
	}
	return fmt.Sprintf("answer the request: other answers hold the memory that this server has for answers; try again in %.0f s, or ask for less at once",
		RetryAfter.Seconds())
}

// IsPermanent reports whether the answer needs more than one answer may ever hold, so that a
// retry is useless.
func (e *ExhaustedError) IsPermanent() bool { return e.Answer > e.Share }

// IsExhausted reports whether err is an *ExhaustedError.
func IsExhausted(err error) bool {
	_, is := errors.AsType[*ExhaustedError](err)
	return is
}

// Account holds the memory of one answer. It is safe for concurrent use. The caller
// MUST call Release.
type Account struct {
	*holding
	factor int64
}

// holding is shared by the accounts of one answer.
type holding struct {
	b      *Budget
	tenant string

	mu       sync.Mutex
	held     int64 // guarded by mu
	released bool  // guarded by mu

	waiter *waiter // guarded by b.mu; set from the first wait for memory in Retry until Retry returns

	retries atomic.Int64 // running calls of Retry, which count a refusal themselves
}

// Answer opens an account for one answer to a tenant. Each byte that is taken counts
// factor times, because an answer holds its content more than once while it is encoded.
func (b *Budget) Answer(tenant string, factor int64) *Account {
	return &Account{holding: &holding{b: b, tenant: tenant}, factor: max(factor, 1)}
}

// WithFactor returns the same account with another factor.
func (a *Account) WithFactor(factor int64) *Account { return &Account{a.holding, max(factor, 1)} }

// Take adds n bytes of content to the account, or returns an *ExhaustedError. It does
// not wait, because the caller may hold memory that others need; see Retry.
//
// One tenant cannot take the whole share. Several answers of a tenant together never
// hold more than what stays free. A tenant with a single answer leaves an eighth of the
// share free. That eighth is for tenants that hold at most a quarter of the eighth. So a
// large answer of one tenant does not cause the refusal of a small answer of another one.
func (a *Account) Take(n int64) error { return a.take(n * a.factor) }

// TakeOnce is Take without the factor, for memory that is held once, such as a buffer.
func (a *Account) TakeOnce(n int64) error { return a.take(n) }

func (a *holding) take(n int64) error {
	if n <= 0 {
		return nil
	}
	if ok, _ := a.try(n, true); ok {
		if n > uncountedHeap {
			a.b.droppedRequests.collectOver(a.b.answersUsed(), a.b.opts.Answers)
		}
		return nil
	}
	if a.retries.Load() == 0 {
		a.b.refused.Add(1)
	}
	return &ExhaustedError{Need: n, Answer: a.Held() + n, Share: a.b.opts.Answers - a.b.smallReserve()}
}

// wait returns true when n bytes can be taken, and false when ctx is done or late
// fires.
func (a *holding) wait(ctx context.Context, n int64, late <-chan time.Time) bool {
	for {
		ok, freed := a.try(n, false)
		if ok {
			select {
			case <-late: // other answers took the memory each time
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

// try reports whether n bytes are free, and takes them if take is set. If they are not
// free, it returns a channel that is closed when some bytes are returned.
func (a *holding) try(n int64, take bool) (bool, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.released {
		return true, nil // the answer has ended, so the bytes would never be returned
	}
	b := a.b
	b.mu.Lock()
	defer b.mu.Unlock()
	free, own := b.opts.Answers-b.used, b.tenants[a.tenant]
	if own+n > b.smallLimit() {
		free -= b.claimedBy(a.tenant)
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
	a.noteTaken(n)
	return true, nil
}

// Limit returns n bytes, or half the share if that is less. Two answers that need more
// than half the share never fit at the same time. One such answer, counted as half the
// share, leaves space for a smaller answer of another tenant.
func (a *holding) Limit(n int64) int64 { return min(n, a.b.opts.Answers/2) }

// Drop returns all memory, like Shrink(0). It is for a large request of n bytes that
// nothing refers to any longer. If the memory of another request would not fit beside
// the dropped request, the garbage collector runs first.
func (a *holding) Drop(n int64) { a.drop(n, 0) }

// DropTo is Drop for all but n bytes.
func (a *holding) DropTo(n int64) { a.drop(a.Held()-n, n) }

func (a *holding) drop(n, to int64) {
	if n <= 0 {
		return
	}
	held := a.Held()
	a.b.droppedRequests.add(n)
	a.b.droppedRequests.collectOver(a.b.answersUsed()-held+to, a.b.opts.Answers)
	a.Shrink(to)
}

func (b *Budget) answersUsed() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// fits reports whether a tenant that holds own bytes may take n of the free bytes. only
// reports that the bytes are for the only answer of the tenant.
func (b *Budget) fits(own, n, free int64, only bool) bool {
	if own+n <= b.smallLimit() {
		return n <= free
	}
	if n > free-b.smallReserve() {
		return false
	}
	return only || own+n <= free-n
}

// smallLimit is the number of bytes that a tenant may hold with a small answer.
func (b *Budget) smallLimit() int64 { return b.opts.Answers / 32 }

// smallReserve is the number of bytes that large answers leave for small ones.
func (b *Budget) smallReserve() int64 { return b.opts.Answers / 8 }

// Held returns the number of bytes that the account holds.
func (a *holding) Held() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held
}

// Shrink returns all but to bytes, a former result of Held. An answer that is written
// in pieces needs the memory of only one piece.
func (a *holding) Shrink(to int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.giveBack(a.held - to)
}

// Release returns all memory. It MAY be called more than once. After Release the
// account takes nothing.
func (a *holding) Release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.released = true
	a.giveBack(a.held)
}

// giveBack returns n bytes. The caller must hold a.mu.
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
	b.waitLine.isNextKnown = false
	close(b.freed)
	b.freed = make(chan struct{})
}

// uncountedHeap is the maximum size of a heap that is not accounted for, in bytes. Most heaps
// are smaller, and few runs execute at the same time.
const uncountedHeap = 4 << 20

// RunAccount holds the memory of a run's heaps in this process. It is not safe for
// concurrent use. The caller MUST call Release.
type RunAccount struct {
	b    *Budget
	held int64
}

// Run opens an account for a run.
func (b *Budget) Run() *RunAccount { return &RunAccount{b: b} }

// Reserve waits until n bytes of the share of runs are free, or the complete share if
// that is smaller, and takes them. It first returns what the account held, because a
// run holds one heap at a time. Runs are served in the order of their calls. The error
// is from ctx, and the account then holds nothing.
func (a *RunAccount) Reserve(ctx context.Context, n int64) error {
	a.Release()
	if n <= uncountedHeap {
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
	a.b.garbage.collectOver(a.b.runsUsed.Add(n), a.b.opts.Runs)
	return nil
}

// Release returns the memory of the account. The caller MUST NOT keep references to the
// heap in that memory. Release MAY be called more than once.
func (a *RunAccount) Release() {
	n := a.held
	if n == 0 {
		return
	}
	a.held = 0
	a.b.garbage.add(n)
	// Do this before another run takes the memory: otherwise both heaps would exist.
	a.b.garbage.collectOver(a.b.runsUsed.Add(-n), a.b.opts.Runs)
	a.b.runs.Release(n)
}

// Cache returns the size of the cache's share, in bytes.
func (b *Budget) Cache() int64 { return b.opts.Cache }

// SetCached sets the number of bytes that the cache holds.
func (b *Budget) SetCached(n int64) { b.cacheUsed.Store(n) }

// Usage is the used part of a share and its size, in bytes.
type Usage struct{ Used, Size int64 }

// Stats is the state of a Budget.
type Stats struct {
	Answers, Runs, Cache Usage
	// RunsWaiting is the number of runs that wait for memory.
	RunsWaiting int64
	// Refused counts the refused requests for memory: refused immediately, or in Retry
	// after a wait.
	Refused int64
}

// Stats returns the current state.
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

// WithRun returns a context that carries the account of a run. Take with this context
// reserves memory in the account.
func WithRun(ctx context.Context, a *RunAccount) context.Context {
	return context.WithValue(ctx, runKey{}, a)
}

// Without returns a context without accounts. Memory taken with it is not accounted
// for. It is for data that stays in memory for all requests.
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

// Take takes n bytes of content from the account that ctx carries. Without an account
// it reserves them in the run's account, if ctx carries one, and does nothing
// otherwise.
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

// TakeOnce is Account.TakeOnce for the account that ctx carries.
func TakeOnce(ctx context.Context, n int) error {
	if a := From(ctx); a != nil {
		return a.TakeOnce(int64(n))
	}
	return reserve(ctx, n)
}

// Retry calls fn. If fn returns an *ExhaustedError, Retry returns the memory that fn
// took from the account in ctx, waits for memory and calls fn again, until
// Options.Patience has passed. fn MUST NOT have started an answer when it returns that
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
			n = all // the returned memory must fit too, or fn would fail again immediately
		}
		a.queue(w, n)
		if full.IsPermanent() || !a.wait(ctx, n, timer.C) {
			return err
		}
		err = fn()
		full, exhausted = errors.AsType[*ExhaustedError](err)
	}
	return err
}

// Piece calls fn and then returns the memory that fn took from the account in ctx. fn
// reads and writes one piece of an answer.
func Piece(ctx context.Context, fn func() error) error {
	a := From(ctx)
	if a == nil {
		return fn()
	}
	before := a.Held()
	defer a.Shrink(before)
	return fn()
}
