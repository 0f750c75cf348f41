package migration

import (
	"context"
	"errors"
	"sync"

	"daybook/ledger"
	"daybook/runner"
)

// flights lets parallel requests for the same heap wait for the first of them.
type flights struct {
	mu      sync.Mutex
	current map[string]*flight // by tenant and heap; guarded by mu
}

type flight struct {
	done chan struct{}
	// result and err are valid once done is closed. isShared is false if they are only
	// those of one request: its ctx or its share of time ended, or it got no place.
	result   Result
	err      error
	isShared bool
}

// do calls fn, or waits for the call of another request with the same key. It calls fn after
// that if the other result is of no use. usable reports whether a result of another request
// is one of this request. Once ctx is done, do no longer waits and returns its cause.
func (f *flights) do(ctx context.Context, key string, usable func(Result) bool, fn func() (Result, error)) (Result, error) {
	for {
		f.mu.Lock()
		other := f.current[key]
		if other == nil {
			own := &flight{done: make(chan struct{})}
			if f.current == nil {
				f.current = map[string]*flight{}
			}
			f.current[key] = own
			f.mu.Unlock()
			return f.lead(ctx, key, own, fn)
		}
		f.mu.Unlock()
		select {
		case <-other.done:
			if other.isShared && (other.err != nil || usable(other.result)) {
				return other.result, other.err
			}
		case <-ctx.Done():
			return Result{}, context.Cause(ctx)
		}
	}
}

func (f *flights) lead(ctx context.Context, key string, own *flight, fn func() (Result, error)) (Result, error) {
	defer func() { // also if fn panics
		f.mu.Lock()
		delete(f.current, key)
		f.mu.Unlock()
		close(own.done)
	}()
	own.result, own.err = fn()
	own.isShared = own.err == nil || ctx.Err() == nil && !errors.Is(own.err, runner.ErrMigrationUnfinished) && ledger.CodeOf(own.err) != ledger.CodeExhausted
	return own.result, own.err
}
