package httpapi

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Many readiness requests at the same time run one check.
func TestReadinessIsCheckedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		checks, answer := 0, errors.New("not ready")
		s := &sharedCheck{check: func(ctx context.Context) error {
			checks++
			select {
			case <-time.After(time.Second):
				return answer
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		left, leave := context.WithCancel(t.Context())
		var crowd sync.WaitGroup
		crowd.Go(func() { _ = s.do(left) })
		synctest.Wait()
		for range 200 {
			crowd.Go(func() {
				if err := s.do(t.Context()); !errors.Is(err, answer) {
					t.Errorf("one of the clients: %v", err)
				}
			})
		}
		synctest.Wait()
		leave() // the client whose check the others wait for
		crowd.Wait()
		if checks != 2 {
			t.Errorf("%d checks for 200 clients, want one and that of the client that left", checks)
		}
		answer = nil
		time.Sleep(readyShareTime)
		if err := s.do(t.Context()); err != nil || checks != 3 {
			t.Errorf("later: %v after %d checks", err, checks)
		}
	})
}
