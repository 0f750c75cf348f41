package queue_test

import (
	"context"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/resources/fairness"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/queue"
	"daybook/internal/store/storetest"
	"daybook/runner"
)

// A tenant with the maximum number of unacknowledged requests does not hold slots:
// another tenant is served at once. Its own requests continue after an acknowledgement.
func TestFullTenantHoldsNoSlot(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	s := storetest.Open(t, server, jetstream.Options{AckWait: time.Hour})
	queue.SetLookInterval(s.Queue, time.Hour) // a look would find the requests too
	first := mustAppend(t, s, requestOf("full", ""), 0)
	_, js := raw(t, server)
	c, err := js.Consumer(t.Context(), firstStream, queue.WorkConsumer(events.DefaultPool, "full"))
	if err != nil {
		t.Fatal(err)
	}
	config := c.CachedInfo().Config
	config.MaxAckPending = 2
	if _, err := js.UpdateConsumer(t.Context(), firstStream, config); err != nil {
		t.Fatal(err)
	}
	type seen struct {
		tenant string
		again  bool
	}
	deliveries := make(chan seen, 20)
	share(t, s, fairness.Slots{Total: 1}, func(ctx context.Context, d runner.Delivery) {
		now := seen{d.Event.Tenant, d.Delivered > 1}
		if now.tenant == "full" && !now.again && d.Event.Seq <= first+1 {
			if err := d.Nak(ctx, time.Hour); err != nil { // a waiting turn
				t.Error(err)
			}
		} else {
			mustAck(t, d)
		}
		deliveries <- now
	})
	mustAppend(t, s, requestOf("full", ""), 0)
	for range 2 {
		if got := soon(t, "a request", deliveries); got != (seen{"full", false}) {
			t.Fatalf("got %+v", got)
		}
	}
	for range 3 {
		mustAppend(t, s, requestOf("full", ""), 0)
		mustAppend(t, s, requestOf("other", ""), 0)
		if got := soon(t, "the other tenant's request", deliveries); got != (seen{"other", false}) {
			t.Fatalf("got %+v", got)
		}
	}
	if err := s.Release(t.Context(), "full", events.DefaultPool, first); err != nil {
		t.Fatal(err)
	}
	if got := soon(t, "the released request", deliveries); got != (seen{"full", true}) {
		t.Fatalf("got %+v", got)
	}
	for range 3 {
		if got := soon(t, "a request that was held back", deliveries); got != (seen{"full", false}) {
			t.Fatalf("got %+v", got)
		}
	}
}
