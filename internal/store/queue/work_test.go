package queue_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"daybook/events"
	"daybook/internal/resources/fairness"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/natsserver"
	"daybook/internal/store/queue"
	"daybook/internal/store/storetest"
	"daybook/internal/store/stream"
	"daybook/runner"
)

// consume runs Consume until stop is called. stop waits until Consume has returned.
func consume(t *testing.T, s *jetstream.Store, slots int, fn func(context.Context, runner.Delivery)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Consume(ctx, events.DefaultPool, fairness.Slots{Total: slots}, fn) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func TestConsumeBoundsConcurrentRuns(t *testing.T) {
	s := storetest.Start(t)
	const runs, slots = 20, 3
	for range runs {
		mustAppend(t, s, requested(newID()), 0)
	}
	var mu sync.Mutex
	running, most := 0, 0
	seen := make(chan string, runs)
	consume(t, s, slots, func(ctx context.Context, d runner.Delivery) {
		mu.Lock()
		running++
		most = max(most, running)
		mu.Unlock()
		if d.Delivered != 1 {
			t.Errorf("delivery %d of a fresh run", d.Delivered)
		}
		if err := d.Ack(ctx); err != nil {
			t.Error(err)
		}
		mu.Lock()
		running--
		mu.Unlock()
		seen <- d.Event.About()
	})
	once := map[string]bool{}
	for range runs {
		once[<-seen] = true
	}
	if len(once) != runs {
		t.Errorf("%d different runs, want %d", len(once), runs)
	}
	if most > slots {
		t.Errorf("%d at once, allowed are %d", most, slots)
	}
}

// A request in progress is not delivered again, however long it takes. A request whose
// runner died is.
func TestHeartbeatsKeepWork(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	s := storetest.Open(t, server, jetstream.Options{AckWait: 4 * time.Second})
	mustAppend(t, s, requested(newID()), 0)
	deliveries := make(chan int, 10)
	release := make(chan struct{})
	free := sync.OnceFunc(func() { close(release) })
	consume(t, s, 2, func(ctx context.Context, d runner.Delivery) {
		deliveries <- d.Delivered
		if d.Delivered == 1 {
			<-release
			return // without acknowledging, as if the process had died
		}
		if err := d.Ack(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(free) // before the consumer is stopped, which waits
	<-deliveries
	select {
	case n := <-deliveries:
		t.Fatalf("delivered again (%d) while it was being worked on", n)
	case <-time.After(9 * time.Second): // more than twice the deadline
	}
	free()
	if n := <-deliveries; n != 2 {
		t.Errorf("delivery %d, want the second", n)
	}
}

func TestExclusiveTakesOverAtOnce(t *testing.T) {
	dir := t.TempDir()
	server := storetest.StartServer(t, dir)
	s := storetest.Open(t, server, jetstream.Options{AckWait: time.Hour})
	id := newID()
	mustAppend(t, s, requested(id), 0)
	taken := make(chan struct{})
	stop := consume(t, s, 1, func(context.Context, runner.Delivery) { close(taken) }) // never acknowledges
	<-taken
	stop()
	server.Close()

	s = storetest.Open(t, storetest.StartServer(t, dir), jetstream.Options{AckWait: time.Hour, Exclusive: true})
	again := make(chan string, 1)
	consume(t, s, 1, func(ctx context.Context, d runner.Delivery) {
		again <- d.Event.About()
		if err := d.Ack(ctx); err != nil {
			t.Error(err)
		}
	})
	select {
	case got := <-again:
		if got != id {
			t.Errorf("got %s, want %s", got, id)
		}
	case <-time.After(30 * time.Second):
		t.Error("a request of the earlier process was not delivered")
	}
}

// bothKinds calls test with a Store whose cancel requests pass through the server, and with
// one that is alone.
func bothKinds(t *testing.T, test func(t *testing.T, s *jetstream.Store)) {
	for name, exclusive := range map[string]bool{"through the server": false, "exclusive": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := storetest.Open(t, storetest.StartServer(t, t.TempDir()), jetstream.Options{Exclusive: exclusive})
			queue.SetCancelTimeout(s.Queue, patience) // a machine under load may need longer than 2 s
			test(t, s)
		})
	}
}

func TestCancelRequests(t *testing.T) {
	t.Parallel()
	bothKinds(t, testCancelRequests)
}

func testCancelRequests(t *testing.T, s *jetstream.Store) {
	id := newID()
	if answered, err := s.RequestCancel(t.Context(), tenant, id); answered || err != nil {
		t.Errorf("no runner has it: %v, %v", answered, err)
	}
	stop, err := s.ListenCancel(tenant, id, func() bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	if answered, err := s.RequestCancel(t.Context(), tenant, id); !answered || err != nil {
		t.Errorf("a runner has it: %v, %v", answered, err)
	}
	if answered, err := s.RequestCancel(t.Context(), "other", id); answered || err != nil {
		t.Errorf("another tenant's request: %v, %v", answered, err)
	}
	if held, err := s.IsHeld(t.Context(), tenant, id); !held || err != nil {
		t.Errorf("held: %v, %v", held, err)
	}
	stop()
	stop() // has no effect
	if held, err := s.IsHeld(t.Context(), tenant, id); held || err != nil {
		t.Errorf("held after the end: %v, %v", held, err)
	}
	refuse, err := s.ListenCancel(tenant, id, func() bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	defer refuse()
	if answered, err := s.RequestCancel(t.Context(), tenant, id); answered || err != nil {
		t.Errorf("the runner does not end it: %v, %v", answered, err)
	}
}

// Subscribers see each stored event once and no refused one, and can change nothing.
func TestReader(t *testing.T) {
	server, err := natsserver.Start(t.Context(), natsserver.Options{
		StoreDir: t.TempDir(), Listen: "127.0.0.1:0", NoSync: true, Logger: storetest.Logger(t),
		ReadableStreams: stream.Streams(), TenantSubjects: stream.TenantSubjects,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	s := storetest.Open(t, server, jetstream.Options{})
	keys, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := keys.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.SetSubscribers([]natsserver.Subscriber{{ID: "reader", Tenant: tenant, PublicKey: public}}); err != nil {
		t.Fatal(err)
	}
	refused := make(chan error, 10)
	nc, err := nats.Connect("nats://"+server.Addr(), nats.Nkey(public, keys.Sign), nats.Timeout(patience),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	sub, err := nc.SubscribeSync("events." + tenant + ".>")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	id := newID()
	mustAppend(t, s, started(id, 1), 0)
	for range 3 {
		if _, err := s.Append(t.Context(), started(id, 1), 0); err == nil {
			t.Fatal("accepted twice")
		}
	}
	mustAppend(t, s, started(newID(), 1), 0)
	for want := uint64(1); want <= 2; want++ {
		m, err := sub.NextMsg(10 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Header.Get("Nats-Sequence"); got != map[uint64]string{1: "1", 2: "2"}[want] {
			t.Errorf("republished position %s, want %d", got, want)
		}
		if got := m.Header["ce-type"]; len(got) != 1 || got[0] != string(events.TypeExecutionStarted) {
			t.Errorf("ce-type %v", got)
		}
	}
	for _, subject := range []string{"ledger.0001.default.exec.x", "events.default.x", "$O.BLOBS.C.x", "ctl.default.exec.x.cancel"} {
		if err := nc.Publish(subject, nil); err != nil {
			t.Fatal(err)
		}
		if err := <-refused; err == nil {
			t.Errorf("%s was allowed", subject)
		}
	}
	// Streams that are not exposed do not exist for readers.
	for _, subject := range []string{"$JS.API.STREAM.MSG.GET.OBJ_BLOBS", "$JS.API.STREAM.INFO.OBJ_BLOBS", "$JS.API.DIRECT.GET.OBJ_BLOBS", "$JS.API.CONSUMER.CREATE.OBJ_BLOBS.a"} {
		if m, err := nc.Request(subject, []byte(`{"seq":1}`), 10*time.Second); err == nil && !strings.Contains(string(m.Data), "stream not found") {
			t.Errorf("%s was answered: %v, %v", subject, m, err)
		}
	}
	// A new volume is exposed too.
	seal(t, s)
	last := mustAppend(t, s, started(newID(), 1), 0)
	if m, err := nc.Request("$JS.API.STREAM.MSG.GET.LEDGER-0002", fmt.Appendf(nil, `{"seq":%d}`, last), 10*time.Second); err != nil || !strings.Contains(string(m.Data), `"subject":"ledger.0002.default.exec.`) {
		t.Errorf("the next volume: %v, %v", m, err)
	}
	if _, err := nats.Connect("nats://" + server.Addr()); err == nil {
		t.Error("connected without credentials")
	}
	if err := s.Health(t.Context()); err != nil {
		t.Error(err)
	}
}
