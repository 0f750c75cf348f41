package mcp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"daybook/internal/resources/budget"
)

const (
	// freeCalls is how many calls of a connection take no memory before they have an
	// answer. Each further one takes callBytes.
	freeCalls = 8
	callBytes = 64 << 10
	// lineCopies is how often the content of a message is in memory until it is answered,
	// freeLine how much of it is not accounted for, in bytes.
	lineCopies = 2
	freeLine   = 64 << 10
	// capacityTimeout is how long a call beyond maxCalls waits while no answer is written. It is
	// longer than a link waits for a client that reads nothing.
	capacityTimeout = 40 * time.Second
)

// lineCalls are the calls of a lineConn that are read and not answered. Each has an
// account, which holds memory until the client has read the answer.
type lineCalls struct {
	// openAccount opens an account; nil for no limits of memory. known are those of calls
	// in progress, by the key that the header of a call carries.
	openAccount func() *budget.Account
	accounts    *accounts
	// capacityTimeout is capacityTimeout.
	capacityTimeout time.Duration

	mu       sync.Mutex
	count    int
	byID     map[jsonrpc.ID][]*lineCall // the oldest first: a client may use an id twice
	answered chan struct{}              // closed when an answer is written; nil if nothing waits
	freed    chan struct{}              // closed when a call is removed; nil if nothing waits
	// stuck is true from a refusal until the next answer: further calls are refused at once.
	stuck bool
}

type lineCall struct {
	key      string
	account  *budget.Account // nil for none
	answered bool            // its answer is being written
}

// errSameID refuses a call with the id of another one that has no answer.
var errSameID = errors.New("another request with this id is not answered; send each request with an id of its own")

// tooManyCallsError refuses a call of a connection with too many of them.
func tooManyCallsError() error {
	return fmt.Errorf("the connection has %d requests that are not answered; wait for answers or cancel requests, then try again", maxCalls)
}

// add counts a call with a message of some bytes. It waits for a place as long as others
// are answered, and a moment for memory. It returns errEnded when ended is closed. The key
// is empty without an account. Only one goroutine may call it.
func (l *lineCalls) add(ctx context.Context, ended <-chan struct{}, id jsonrpc.ID, bytes int) (key string, err error) {
	if l.inUse(id) {
		return "", errSameID
	}
	n, err := l.awaitCapacity(ctx, ended)
	if err != nil {
		return "", err
	}
	call := &lineCall{}
	if l.openAccount != nil {
		need := int64(max(bytes-freeLine, 0)) * lineCopies
		if n >= freeCalls {
			need += callBytes
		}
		call.account, call.key = l.openAccount(), rand.Text()
		if need > 0 {
			if err := budget.Retry(budget.With(ctx, call.account), func() error { return call.account.TakeOnce(need) }); err != nil {
				call.account.Release()
				return "", err //nolint:wrapcheck // it is the answer
			}
		}
		l.accounts.Store(call.key, call.account)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	l.byID[id] = append(l.byID[id], call)
	return call.key, nil
}

// inUse reports whether a call with an id has no answer. The SDK would drop another one
// without an answer.
func (l *lineCalls) inUse(id jsonrpc.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.byID[id], func(c *lineCall) bool { return !c.answered })
}

// awaitCapacity waits until there are fewer than maxCalls calls, and returns how many there are.
func (l *lineCalls) awaitCapacity(ctx context.Context, ended <-chan struct{}) (int, error) {
	l.mu.Lock()
	n, stuck := l.count, l.stuck
	if n < maxCalls {
		l.mu.Unlock()
		return n, nil
	}
	if stuck {
		l.mu.Unlock()
		return 0, tooManyCallsError()
	}
	freed := make(chan struct{})
	l.freed = freed
	l.mu.Unlock()
	timer := time.NewTimer(l.capacityTimeout)
	defer timer.Stop()
	select {
	case <-freed:
		return maxCalls - 1, nil // the others only end
	case <-timer.C:
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.count < maxCalls {
			return l.count, nil
		}
		l.stuck = true
		return 0, tooManyCallsError()
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-ended:
		return 0, errEnded
	}
}

// answering notes that the answer to the oldest call of an id is being written. The
// client may use the id again once it has it.
func (l *lineCalls) answering(id jsonrpc.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.byID[id] {
		if !c.answered {
			c.answered = true
			return
		}
	}
}

// remove counts the oldest call of an id no more, once its answer is written. The key
// stands for no account from then on.
func (l *lineCalls) remove(id jsonrpc.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.byID[id]
	if len(list) == 0 {
		return // the answer refuses the call
	}
	l.release(list[0])
	if l.byID[id] = list[1:]; len(list) == 1 {
		delete(l.byID, id)
	}
	l.stuck = false
	if l.freed != nil {
		close(l.freed)
		l.freed = nil
	}
	l.count--
	if l.answered != nil {
		close(l.answered)
		l.answered = nil
	}
}

// removeAll ends the accounts of calls that the end of the connection left without an
// answer.
func (l *lineCalls) removeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, list := range l.byID {
		for _, call := range list {
			l.release(call)
		}
	}
	l.byID, l.count = map[jsonrpc.ID][]*lineCall{}, 0
}

func (l *lineCalls) release(call *lineCall) {
	if call.account != nil {
		l.accounts.Delete(call.key)
		call.account.Release()
	}
}

// nextAnswer returns a channel that is closed when the next answer is written, or nil
// if all calls are answered. Only one goroutine may wait.
func (l *lineCalls) nextAnswer() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count == 0 {
		return nil
	}
	l.answered = make(chan struct{})
	return l.answered
}
