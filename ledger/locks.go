package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// keyedLocks is a set of mutexes by key. A mutex exists only while a caller holds it or
// waits for it. The zero value is ready to use.
type keyedLocks struct {
	mu    sync.Mutex
	locks map[string]*keyedLock
}

type keyedLock struct {
	// free holds one token while the lock is not held.
	free chan struct{}
	// users counts holders and waiters. unlockCount counts only the earlier holders that had
	// time for their work: their command was in time when it unlocked, or lost against
	// another writer. Both are guarded by keyedLocks.mu.
	users, unlockCount int
	// holder is the command that took the lock last; nil if that caller had none.
	holder atomic.Pointer[answer]
}

// errContended reports that other callers obtained a lock while a caller waited for it.
// So the caller was delayed by load, and not by a store that hangs.
var errContended = errors.New("other commands held the lock while this one waited")

// lock waits for the mutex of the key, or for ctx, and returns the function that unlocks
// it. Waiters obtain the mutex in the order of their calls. If ctx is done first, the
// error is its cause, and also errContended if another waiter obtained the mutex
// meanwhile, or if this command or that of the holder lost against another writer.
func (k *keyedLocks) lock(ctx context.Context, key string) (unlock func(), err error) {
	l, before := k.join(key)
	select {
	case <-l.free:
		if k.unlockCount(l) != before {
			noteContention(ctx)
		}
		holder, _ := ctx.Value(answerKey{}).(*answer)
		l.holder.Store(holder)
		return func() {
			l.free <- struct{}{}
			done := 0
			if ctx.Err() == nil || holder.wasContended() {
				done = 1 // a holder whose time was up did nothing
			}
			k.leave(key, l, done)
		}, nil
	case <-ctx.Done():
		if k.leave(key, l, 0) != before || wasContended(ctx) || l.holder.Load().wasContended() {
			return nil, fmt.Errorf("%w: %w", errContended, context.Cause(ctx))
		}
		return nil, context.Cause(ctx)
	}
}

func (k *keyedLocks) unlockCount(l *keyedLock) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return l.unlockCount
}

func (k *keyedLocks) join(key string) (l *keyedLock, unlocks int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l = k.locks[key]
	if l == nil {
		l = &keyedLock{free: make(chan struct{}, 1)}
		l.free <- struct{}{}
		if k.locks == nil {
			k.locks = make(map[string]*keyedLock)
		}
		k.locks[key] = l
	}
	l.users++
	return l, l.unlockCount
}

func (k *keyedLocks) leave(key string, l *keyedLock, done int) (unlocks int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(k.locks, key)
	}
	l.unlockCount += done
	return l.unlockCount
}
