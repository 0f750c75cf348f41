package runner

import "context"

// future is a value or an error that is set once, and waited for by any
// number.
type future[T any] struct {
	done  chan struct{}
	value T
	err   error
}

func newFuture[T any]() future[T] { return future[T]{done: make(chan struct{})} }

// set MUST be called exactly once.
func (f *future[T]) set(v T, err error) {
	f.value, f.err = v, err
	close(f.done)
}

// get waits until the value is set or ctx is done.
func (f *future[T]) get(ctx context.Context) (T, error) {
	select {
	case <-f.done:
		return f.value, f.err
	case <-ctx.Done():
		var zero T
		return zero, context.Cause(ctx)
	}
}
