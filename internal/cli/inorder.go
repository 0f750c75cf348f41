package cli

import (
	"context"
	"sync"
)

// inOrder calls do with each number below n, several at a time, and take with the results in
// the order of the numbers. The first error of do or take ends it and is returned; the context
// of do is then done.
func inOrder[T any](ctx context.Context, n, parallel int, do func(ctx context.Context, i int) (T, error), take func(i int, result T) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	results := make([]chan T, n)
	for i := range results {
		results[i] = make(chan T, 1)
	}
	next := make(chan int)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer stop(context.Canceled)
	for range min(parallel, n) {
		workers.Go(func() {
			for i := range next {
				result, err := do(ctx, i)
				if err != nil {
					stop(err)
					return
				}
				results[i] <- result
			}
		})
	}
	workers.Go(func() {
		defer close(next)
		for i := range n {
			select {
			case next <- i:
			case <-ctx.Done():
				return
			}
		}
	})
	for i, result := range results {
		select {
		case r := <-result:
			if err := take(i, r); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
