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
	// freeCalls is the number of calls of a connection that take no memory before their
	// answers. Each further call takes callBytes.
	freeCalls = 8
	callBytes = 64 << 10
	// lineCopies is the number of copies of an unanswered message in memory. The first
	// freeLine bytes of each message are not accounted for.
	lineCopies = 2
	freeLine   = 64 << 10
	// capacityTimeout is how long a call beyond maxCalls waits if no answer is written. It
	// is longer than the time that a link waits for a client that does not read.
	capacityTimeout = 40 * time.Second
)

// lineCalls holds the unanswered calls of a lineConn. Each has an account, which holds
// memory until the client has read the answer.
type lineCalls struct {
	// openAccount opens a memory account; nil means no limits. accounts holds the accounts
	// of calls in progress under the key in the header of each call.
	openAccount func() *budget.Account
	accounts    *accounts
	// capacityTimeout is a field for tests.
	capacityTimeout time.Duration

	mu       sync.Mutex
	count    int
	byID     map[jsonrpc.ID][]*lineCall // oldest first: a client may use an id again
	answered chan struct{}              // closed when an answer is written; nil if no goroutine waits
	freed    chan struct{}              // closed when a call is removed; nil if no goroutine waits
	// stuck is true from a refusal to the next answer; calls beyond the limit are then
	// refused immediately.
	stuck bool
}

type lineCall struct {
	key      string
	account  *budget.Account // nil means no limits
	answered bool            // its answer is being written
}

// errSameID refuses a call with the id of another unanswered call.
var errSameID = errors.New("another request with this id is not answered; send each request with an id of its own")

// tooManyCallsError refuses a call beyond maxCalls.
func tooManyCallsError() error {
	return fmt.Errorf("the connection has %d requests that are not answered; wait for answers or cancel requests, then try again", maxCalls)
}

// add counts a call whose message has the given number of bytes. It waits for capacity as
// long as other calls are answered, and briefly for memory. It returns errEnded if ended
// is closed. The key is empty without an account. Only one goroutine may call add.
func (l *lineCalls) add(ctx context.Context, ended <-chan struct{}, id jsonrpc.ID, bytes int) (key string, err error) {
	if l.isInUse(id) {
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
				return "", err //nolint:wrapcheck // the message is for the client
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

// isInUse reports whether a call with an id is unanswered. The SDK would drop a second one
// without an answer.
func (l *lineCalls) isInUse(id jsonrpc.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.byID[id], func(c *lineCall) bool { return !c.answered })
}

// awaitCapacity waits until there are fewer than maxCalls calls, and returns their
// number.
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
		return maxCalls - 1, nil // meanwhile calls can only end
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

// markAnswering marks the oldest unanswered call with an id: its answer is being written.
// The client may use the id again when it has the answer.
func (l *lineCalls) markAnswering(id jsonrpc.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.byID[id] {
		if !c.answered {
			c.answered = true
			return
		}
	}
}

// remove uncounts the oldest call with an id after its answer is written, and releases
// its account.
func (l *lineCalls) remove(id jsonrpc.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.byID[id]
	if len(list) == 0 {
		return // the answer is a refusal of an uncounted call
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

// removeAll releases the accounts of calls that are unanswered when the connection ends.
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

// nextAnswer returns a channel that is closed when the next answer is written, or nil if
// all calls are answered. Only one goroutine may wait.
func (l *lineCalls) nextAnswer() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count == 0 {
		return nil
	}
	l.answered = make(chan struct{})
	return l.answered
}
