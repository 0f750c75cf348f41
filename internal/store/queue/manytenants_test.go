package queue_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"daybook/events"
	"daybook/internal/dev/tier"
	"daybook/internal/resources/fairness"
	"daybook/internal/store/jet"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/queue"
	"daybook/internal/store/storetest"
	"daybook/runner"
)

// One volume serves more tenants than a stream has consumers by default.
func TestManyTenantsInOneVolume(t *testing.T) {
	tier.NightlyOnly(t, "a new tenant is served: TestNewTenantIsServedAtOnce")
	t.Parallel()
	s := storetest.Open(t, storetest.StartServer(t, t.TempDir()), jetstream.Options{})
	done := make(chan string, 1)
	share(t, s, fairness.Slots{Total: 2}, func(_ context.Context, d runner.Delivery) {
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

// The client allocates the queue of the subscription of a tenant at once, so it is
// short. It holds as many requests as a runner asks for at a time.
func TestTenantQueuesAreShort(t *testing.T) {
	t.Parallel()
	s := storetest.Start(t)
	const lookAhead, most = 128, 1024
	if n := queue.QueueLen(s.Queue); n <= lookAhead || n > most {
		t.Errorf("a subscription holds %d messages, want %d to %d", n, lookAhead+1, most)
	}
}

// The error for an outside server that accepts no consumer for another tenant names the
// server setting. Tenants that have a consumer are served.
func TestOutsideServerWithFewConsumers(t *testing.T) {
	t.Parallel()
	ns, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
		JetStreamLimits: server.JSLimitOpts{DefaultMaxConsumers: 2},
	})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(20 * time.Second) {
		t.Fatal("the server does not start")
	}
	var conns [2]*nats.Conn
	for i := range conns {
		if conns[i], err = jet.Connect(ns.ClientURL(), "test", storetest.Logger(t)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conns[i].Close)
	}
	s, err := jetstream.Open(t.Context(), conns[0], conns[1], jetstream.Options{Client: jet.Options{Logger: slog.New(slog.DiscardHandler)}})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan string, 3)
	share(t, s, fairness.Slots{Total: 1}, func(_ context.Context, d runner.Delivery) {
		mustAck(t, d)
		done <- d.Event.Tenant
	})
	for _, tenant := range []string{"a", "b", "c"} {
		mustAppend(t, s, requestOf(tenant, ""), 0)
		if tenant != "c" {
			soon(t, "the run of "+tenant, done)
		}
	}
	if err := s.PrepareWork(t.Context(), events.DefaultPool, "a", "b", "c"); err == nil || !strings.Contains(err.Error(), "tenant c") || !strings.Contains(err.Error(), "default_max_consumers") {
		t.Errorf("the queue of a third tenant: %v", err)
	}
	mustAppend(t, s, requestOf("a", ""), 0)
	if got := soon(t, "a run beside one that has no consumer", done); got != "a" {
		t.Errorf("got a run of %s", got)
	}
}
