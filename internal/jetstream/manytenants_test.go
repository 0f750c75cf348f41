package jetstream_test

import (
	"context"
	"fmt"
	"testing"

	"daybook/internal/fairness"
	"daybook/internal/jetstream"
	"daybook/internal/jetstream/jetstreamtest"
	"daybook/internal/tier"
)

// More tenants than a stream has consumers by default are served in one volume.
func TestManyTenantsInOneVolume(t *testing.T) {
	tier.NightlyOnly(t, "a new tenant is served: TestNewTenantIsServedAtOnce")
	t.Parallel()
	s := jetstreamtest.Open(t, jetstreamtest.StartServer(t, t.TempDir()), jetstream.Options{})
	done := make(chan string, 1)
	share(t, s, fairness.Slots{Total: 2}, func(_ context.Context, d jetstream.Delivery) {
		mustAck(t, d)
		done <- d.Event.Tenant
	})
	const serverDefault = 1000
	for i := range serverDefault + 2 {
		tenant := fmt.Sprintf("t%d", i)
		mustAppend(t, s, requestOf(tenant, ""), 0)
		if got := soon(t, "the run of "+tenant, done); got != tenant {
			t.Fatalf("got a run of %s, want %s", got, tenant)
		}
	}
}

// The client allocates the queue of a tenant's subscription at once, so it is short.
// It holds what a runner asks for at once.
func TestTenantQueuesAreShort(t *testing.T) {
	t.Parallel()
	s := jetstreamtest.Start(t)
	const lookAhead, most = 128, 1024
	if n := jetstream.QueueLen(s); n <= lookAhead || n > most {
		t.Errorf("a subscription holds %d messages, want %d to %d", n, lookAhead+1, most)
	}
}
