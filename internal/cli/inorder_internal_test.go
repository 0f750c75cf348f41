package cli

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
)

// Results come in order, however long each takes. An error of either function ends all.
func TestInOrder(t *testing.T) {
	t.Parallel()
	var got []int
	first := make(chan struct{})
	do := func(_ context.Context, i int) (int, error) {
		switch i {
		case 0:
			<-first
		case 2:
			close(first)
		}
		return 10 * i, nil
	}
	take := func(i, result int) error {
		got = append(got, i, result)
		return nil
	}
	if err := inOrder(t.Context(), 5, 2, do, take); err != nil || !slices.Equal(got, []int{0, 0, 1, 10, 2, 20, 3, 30, 4, 40}) {
		t.Errorf("%v, %v", got, err)
	}
	if err := inOrder(t.Context(), 0, 2, do, take); err != nil {
		t.Error(err)
	}
	wrong := errors.New("wrong")
	var started atomic.Int32
	err := inOrder(t.Context(), 1000, 3, func(ctx context.Context, i int) (int, error) {
		started.Add(1)
		if i == 0 {
			return 0, wrong
		}
		<-ctx.Done()
		return 0, context.Cause(ctx)
	}, take)
	if !errors.Is(err, wrong) || started.Load() > 4 {
		t.Errorf("%v after %d", err, started.Load())
	}
	if err := inOrder(t.Context(), 1000, 3, func(_ context.Context, i int) (int, error) { return i, nil }, func(int, int) error { return wrong }); !errors.Is(err, wrong) {
		t.Error(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := inOrder(ctx, 1000, 3, func(ctx context.Context, _ int) (int, error) { return 0, ctx.Err() }, take); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
