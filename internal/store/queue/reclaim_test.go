package queue_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/resources/fairness"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/queue"
	"daybook/internal/store/storetest"
	"daybook/runner"
)

// turnRequest returns a request of a tenant that has a turn in a session.
func turnRequest(tenant, session string, number int64, after string) events.Event {
	e := requestOf(tenant, "")
	e.Data.(*events.ExecutionRequested).Turn = &events.Turn{SessionID: events.Hash([]byte(session)), Number: number, After: after}
	return e
}

// After a start, requests that an earlier process had in flight are delivered again at
// once. Turns that wait for an earlier one stay in the queue.
func TestTurnsThatWaitAreNotReclaimed(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	opts := jetstream.Options{AckWait: time.Hour, Exclusive: true}
	s := storetest.Open(t, server, opts)
	const turns, ended = 12, 3
	want := map[string]bool{}
	var waiting []string
	plain := requestOf("a", "")
	mustAppend(t, s, plain, 0)
	want[plain.About()] = true
	for _, session := range []string{"x", "y"} {
		after := ""
		for i := range int64(turns) {
			e := turnRequest("a", session, i+1, after)
			after = e.About()
			mustAppend(t, s, e, 0)
			if i < ended { // the end is recorded, the request is not acknowledged
				end := events.NewEnding(events.StatusCancelled, events.Ending{ExecutionID: e.About(), Attempt: 1})
				mustAppend(t, s, events.New("a", time.Now(), end), 0)
			}
			if i <= ended {
				want[e.About()] = true
			} else {
				waiting = append(waiting, e.About())
			}
		}
	}
	seen := make(chan string, 100)
	stop := share(t, s, fairness.Slots{Total: 4}, func(ctx context.Context, d runner.Delivery) {
		if err := d.Nak(ctx, time.Hour); err != nil {
			t.Error(err)
		}
		seen <- d.Event.About()
	})
	for range 2*turns + 1 {
		soon(t, "a first delivery", seen)
	}
	stop()

	s = storetest.Open(t, server, opts)
	share(t, s, fairness.Slots{Total: 4}, func(_ context.Context, d runner.Delivery) {
		mustAck(t, d)
		seen <- d.Event.About()
	})
	for len(want) > 0 {
		id := soon(t, "a request in flight", seen)
		if !want[id] {
			t.Errorf("request %s, which waits for its turn or came before, was delivered", id)
		}
		delete(want, id)
	}
	last := requestOf("b", "")
	mustAppend(t, s, last, 0)
	if id := soon(t, "a new request", seen); id != last.About() {
		t.Errorf("request %s was delivered; %d wait for their turns", id, len(waiting))
	}
}

// An idle tenant costs nothing after the queue is dropped, and its next request is
// served as before.
func TestTenantsAreForgotten(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	s := storetest.Open(t, server, jetstream.Options{AckWait: time.Hour})
	queue.SetForgetAfter(s.Queue, 100*time.Millisecond)
	queue.SetLookInterval(s.Queue, 100*time.Millisecond) // a look drops idle queues
	done := make(chan string, 1)
	share(t, s, fairness.Slots{Total: 2}, func(_ context.Context, d runner.Delivery) {
		mustAck(t, d)
		done <- d.Event.Tenant
	})
	for round := range 2 {
		for i := range 20 {
			tenant := fmt.Sprintf("t%d", i)
			mustAppend(t, s, requestOf(tenant, ""), 0)
			if got := soon(t, "the run", done); got != tenant {
				t.Fatalf("got a run of %s, want %s", got, tenant)
			}
		}
		const listening = 6 // those of the pool and of replies
		for start := time.Now(); queue.Subscriptions(s.Queue) > listening; time.Sleep(10 * time.Millisecond) {
			if time.Since(start) > patience {
				t.Fatalf("round %d: %d subscriptions are left", round, queue.Subscriptions(s.Queue))
			}
		}
	}
}
