package mcp

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// A call beyond the limit is refused if no other one is answered. Further calls are
// refused at once until an answer frees capacity.
func TestCallsBeyondTheLimit(t *testing.T) {
	t.Parallel()
	id := func(n int) jsonrpc.ID {
		id, err := jsonrpc.MakeID(float64(n))
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	l := lineCalls{byID: map[jsonrpc.ID][]*lineCall{}, capacityTimeout: time.Millisecond}
	add := func(n int) error {
		_, err := l.add(t.Context(), nil, id(n), 10)
		return err
	}
	for n := range maxCalls {
		if err := add(n); err != nil {
			t.Fatal(err)
		}
	}
	if err := add(maxCalls); err == nil || err.Error() != tooManyCallsError().Error() {
		t.Errorf("the call beyond the bound: %v", err)
	}
	l.capacityTimeout = time.Hour
	if err := add(maxCalls); err == nil || err.Error() != tooManyCallsError().Error() {
		t.Errorf("another call beyond the bound: %v", err)
	}
	l.remove(id(0))
	if err := add(maxCalls); err != nil {
		t.Errorf("a call after an answer: %v", err)
	}
	ended, ctx := make(chan struct{}), context.Background()
	close(ended)
	if _, err := l.add(ctx, ended, id(maxCalls+1), 10); !errors.Is(err, errEnded) {
		t.Errorf("a call at the end of the connection: %v", err)
	}
	l.removeAll()
	if l.count != 0 || len(l.byID) != 0 {
		t.Errorf("%d calls stay", l.count)
	}
}
