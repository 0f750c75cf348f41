package ledger

import (
	"context"
	"sync"
)

// keyedLocks is a set of mutexes that exist only while somebody holds or wants
// them. The zero value is ready to use.
type keyedLocks struct {
	mu    sync.Mutex
	locks map[string]*keyedLock
}

type keyedLock struct {
	// free holds one token while nobody holds the lock.
	free chan struct{}
	// users counts holders and waiters; guarded by keyedLocks.mu.
	users int
}

// lock waits for the key's mutex, or for ctx, and returns what releases it.
func (k *keyedLocks) lock(ctx context.Context, key string) (unlock func(), err error) {
	l := k.join(key)
	select {
	case <-l.free:
		return func() {
			l.free <- struct{}{}
			k.leave(key, l)
		}, nil
	case <-ctx.Done():
		k.leave(key, l)
		return nil, context.Cause(ctx)
	}
}

func (k *keyedLocks) join(key string) *keyedLock {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.locks[key]
	if l == nil {
		l = &keyedLock{free: make(chan struct{}, 1)}
		l.free <- struct{}{}
		if k.locks == nil {
			k.locks = make(map[string]*keyedLock)
		}
		k.locks[key] = l
	}
	l.users++
	return l
}

func (k *keyedLocks) leave(key string, l *keyedLock) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(k.locks, key)
	}
}
