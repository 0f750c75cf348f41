package ledger

import (
	"context"
	"errors"
	"sync"
	"testing"
)

func TestKeyedLocks(t *testing.T) {
	t.Parallel()
	var locks keyedLocks
	counts := map[string]*int{"a": new(int), "b": new(int)}
	var wg sync.WaitGroup
	for key, n := range counts {
		for range 100 {
			wg.Go(func() {
				unlock, err := locks.lock(t.Context(), key)
				if err != nil {
					t.Error(err)
					return
				}
				*n++ // unsynchronized: the race detector reports two holders
				unlock()
			})
		}
	}
	wg.Wait()
	for key, n := range counts {
		if *n != 100 {
			t.Errorf("%s was held %d times", key, *n)
		}
	}
	if len(locks.locks) != 0 {
		t.Errorf("%d locks are left behind", len(locks.locks))
	}
}

func TestKeyedLocksGiveUp(t *testing.T) {
	t.Parallel()
	var locks keyedLocks
	unlock, err := locks.lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := locks.lock(canceled, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	unlock()
	if len(locks.locks) != 0 {
		t.Errorf("%d locks are left behind", len(locks.locks))
	}
}
