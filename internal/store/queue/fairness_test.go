package queue_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
	"daybook/internal/resources/fairness"
	"daybook/internal/store/jet"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/queue"
	"daybook/internal/store/storetest"
	"daybook/internal/store/stream"
	"daybook/runner"
)

// requestOf returns a request of a tenant in a named session.
func requestOf(tenant, session string) events.Event {
	d := &events.ExecutionRequested{
		ExecutionID: newID(), Pool: events.DefaultPool,
		Content: events.Plain(events.RequestedContent{Source: events.Body{Text: "1"}}),
		Session: session, Actor: testActor,
	}
	if session != "" {
		d.SessionID = events.SessionID(tenant, session)
	}
	return events.New(tenant, time.Now(), d)
}

// share runs Consume with slots until stop is called. stop waits until Consume has
// returned.
func share(t *testing.T, s *jetstream.Store, slots fairness.Slots, fn func(context.Context, runner.Delivery)) (stop func()) {
	t.Helper()
	return running(t, func(ctx context.Context) error { return s.Consume(ctx, events.DefaultPool, slots, fn) })
}

// running runs consume until stop is called or the test ends.
func running(t *testing.T, consume func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- consume(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func mustAck(t *testing.T, d runner.Delivery) {
	t.Helper()
	if err := d.Ack(context.Background()); err != nil {
		t.Error(err)
	}
}

// A tenant with one request waits for one run of a tenant with many requests, and a
// session with one request for one run of another session.
func TestTenantsAndSessionsAreTakenInTurn(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	s := storetest.Open(t, server, jetstream.Options{})
	started, proceed := make(chan string), make(chan struct{})
	t.Cleanup(func() { close(started) }) // after Consume has returned
	consume, waiting := queue.ConsumeSeen(s.Queue, events.DefaultPool, fairness.Slots{Total: 1}, func(_ context.Context, d runner.Delivery) {
		r := d.Event.Data.(*events.ExecutionRequested)
		select {
		case started <- d.Event.Tenant + " " + r.Session:
			<-proceed
		case <-time.After(patience):
		}
		mustAck(t, d)
	})
	running(t, consume)
	t.Cleanup(func() { // the other runs end at once
		close(proceed)
		go func() {
			for range started { // until the test closes it
			}
		}()
	})
	mustAppend(t, s, requestOf("many", "x"), 0)
	if got := soon(t, "the first request", started); got != "many x" {
		t.Fatalf("the first run is %q", got)
	}
	for range 20 {
		mustAppend(t, s, requestOf("many", "x"), 0)
	}
	mustAppend(t, s, requestOf("many", "y"), 0)
	mustAppend(t, s, requestOf("few", "z"), 0)
	// The consumers of the server and the runner learn of a stored request with a delay.
	_, js := raw(t, server)
	for tenant, n := range map[string]uint64{"many": 21, "few": 1} {
		until(t, "the requests of tenant "+tenant, func() bool {
			c, err := js.Consumer(t.Context(), firstStream, queue.WorkConsumer(events.DefaultPool, tenant))
			if err != nil {
				t.Fatal(err)
			}
			return c.CachedInfo().NumPending == n && waiting(tenant) > 0
		})
	}
	var order []string
	for range 8 {
		proceed <- struct{}{}
		order = append(order, soon(t, "the next request", started))
	}
	place := map[string]int{}
	for i, name := range order {
		if _, seen := place[name]; !seen {
			place[name] = i
		}
	}
	if i, ok := place["few z"]; !ok || i > 3 {
		t.Errorf("the other tenant is not among the next four: %q", order)
	}
	if _, ok := place["many y"]; !ok {
		t.Errorf("the other session is not among the next eight: %q", order)
	}
}

// Runs that do not end leave an extra slot to a tenant that has none, and at most one
// to each tenant.
func TestExtraSlot(t *testing.T) {
	t.Parallel()
	s := storetest.Start(t)
	started, release := make(chan string, 10), make(chan struct{})
	end := sync.OnceFunc(func() { close(release) })
	share(t, s, fairness.Slots{Total: 2, Extra: 1, ExtraAfter: 50 * time.Millisecond}, func(_ context.Context, d runner.Delivery) {
		started <- d.Event.Tenant
		if d.Event.Tenant == "endless" {
			<-release
		}
		mustAck(t, d)
	})
	t.Cleanup(end)
	for range 4 {
		mustAppend(t, s, requestOf("endless", ""), 0)
	}
	for range 2 {
		if got := soon(t, "an endless run", started); got != "endless" {
			t.Fatalf("got %s", got)
		}
	}
	for range 3 {
		mustAppend(t, s, requestOf("other", ""), 0)
		if got := soon(t, "a run in the extra slot", started); got != "other" {
			t.Fatalf("got %s", got)
		}
	}
	end()
	for range 2 {
		soon(t, "the other endless runs", started)
	}
}

func TestSlotsOfOneTenantAreBounded(t *testing.T) {
	t.Parallel()
	s := storetest.Start(t)
	started, proceed := make(chan string, 10), make(chan struct{})
	end := sync.OnceFunc(func() { close(proceed) })
	share(t, s, fairness.Slots{Total: 2, PerTenant: 1}, func(_ context.Context, d runner.Delivery) {
		started <- d.Event.Tenant
		<-proceed
		mustAck(t, d)
	})
	t.Cleanup(end)
	for range 3 {
		mustAppend(t, s, requestOf("a", ""), 0)
	}
	soon(t, "the first run", started)
	mustAppend(t, s, requestOf("b", ""), 0)
	if got := soon(t, "a run of the other tenant", started); got != "b" {
		t.Errorf("a second run of %s beside its first", got)
	}
	end()
	for range 2 {
		soon(t, "the others", started)
	}
}

// Several runners process every request of several tenants once, across a change of the
// volume. A runner that took requests ahead shares them with an idle one.
func TestSeveralRunnersShareTheWork(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	busy, idle := storetest.Open(t, server, jetstream.Options{AckWait: time.Hour}), storetest.Open(t, server, jetstream.Options{AckWait: time.Hour})
	release := make(chan struct{})
	end := sync.OnceFunc(func() { close(release) })
	seen := make(chan string, 200)
	share(t, busy, fairness.Slots{Total: 1}, func(_ context.Context, d runner.Delivery) {
		<-release // until the other has processed the rest
		mustAck(t, d)
		seen <- d.Event.About()
	})
	t.Cleanup(end)
	const each = 20
	for i := range each {
		for _, tenant := range []string{"a", "b"} {
			mustAppend(t, busy, requestOf(tenant, fmt.Sprint(i%3)), 0)
		}
		if i == each/2 {
			seal(t, busy)
		}
	}
	share(t, idle, fairness.Slots{Total: 2}, func(_ context.Context, d runner.Delivery) {
		mustAck(t, d)
		seen <- d.Event.About()
	})
	once := map[string]int{}
	for range 2*each - 1 {
		once[soon(t, "a request", seen)]++
	}
	end()
	once[soon(t, "the last request", seen)]++
	if len(once) != 2*each {
		t.Errorf("%d different requests, want %d", len(once), 2*each)
	}
}

// Requests that a runner took ahead are delivered to another one at once when the first
// stops.
func TestRequestsTakenAheadAreReturned(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	s := storetest.Open(t, server, jetstream.Options{AckWait: time.Hour})
	for range 10 {
		mustAppend(t, s, requestOf("a", ""), 0)
	}
	started := make(chan struct{}, 1)
	stop := share(t, s, fairness.Slots{Total: 1}, func(ctx context.Context, d runner.Delivery) {
		started <- struct{}{}
		if err := d.Nak(ctx, 0); err != nil {
			t.Error(err)
		}
	})
	soon(t, "a request", started)
	go func() {
		for range started { // the other requests that it takes until then
		}
	}()
	stop()
	close(started)
	seen := make(chan string, 20)
	share(t, storetest.Open(t, server, jetstream.Options{AckWait: time.Hour}), fairness.Slots{Total: 1}, func(_ context.Context, d runner.Delivery) {
		mustAck(t, d)
		seen <- d.Event.About()
	})
	once := map[string]bool{}
	for range 10 {
		once[soon(t, "a request", seen)] = true
	}
	if len(once) != 10 {
		t.Errorf("%d different requests, want 10", len(once))
	}
}

// A ledger whose pools had one consumer for all tenants loses no request. Requests that
// were acknowledged without a gap before them are not delivered again.
func TestFormerConsumerIsAdopted(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	s := storetest.Open(t, server, jetstream.Options{})
	_, js := raw(t, server)
	former, err := js.CreateConsumer(t.Context(), firstStream, natsjs.ConsumerConfig{
		Durable: "runners-default", FilterSubject: stream.StoredSubject(1, events.PoolSubjects(events.DefaultPool)), DeliverPolicy: natsjs.DeliverAllPolicy,
		AckPolicy: natsjs.AckExplicitPolicy, AckWait: 10 * time.Second, MaxDeliver: -1, MaxAckPending: 100_000, MaxWaiting: 10_000,
	})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for i := range 6 {
		e := requestOf([]string{"a", "b"}[i%2], "")
		w, err := events.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: stream.StoredSubject(1, w.Subject), Header: nats.Header(w.Header), Data: w.Body}); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, e.About())
	}
	batch, err := former.Fetch(3)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for m := range batch.Messages() {
		if n != 1 { // the second one is unacknowledged
			if err := m.DoubleAck(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		n++
	}
	if n != 3 {
		t.Fatalf("%d deliveries of the former consumer", n)
	}
	deliveries := make(chan runner.Delivery, 20)
	take := func(_ context.Context, d runner.Delivery) {
		mustAck(t, d)
		deliveries <- d
	}
	stop := share(t, s, fairness.Slots{Total: 2}, take)
	got := map[string]int{}
	for range 5 { // the third one too: it was acknowledged after a gap
		d := soon(t, "a request", deliveries)
		got[d.Event.About()] = d.Delivered
	}
	if _, again := got[ids[0]]; again || len(got) != 5 {
		t.Errorf("deliveries %v of %v", got, ids)
	}
	for id, delivered := range got {
		if delivered < 2 {
			t.Errorf("the request %s, which the former consumer may have delivered, counts as delivered %d times", id, delivered)
		}
	}
	// A tenant that comes later starts after the acknowledged requests.
	late := requestOf("c", "")
	mustAppend(t, s, late, 0)
	if d := soon(t, "the request of another tenant", deliveries); d.Event.About() != late.About() || d.Delivered != 1 {
		t.Errorf("delivery %d of %s", d.Delivered, d.Event.About())
	}
	stop()
	share(t, s, fairness.Slots{Total: 2}, take)
	last := requestOf("a", "")
	mustAppend(t, s, last, 0)
	if d := soon(t, "a new request", deliveries); d.Event.About() != last.About() {
		t.Errorf("%s was handed out again", d.Event.About())
	}
	seal(t, s)
	if left, err := s.PendingWork(t.Context(), 1); err != nil || left != 0 {
		t.Errorf("unfinished requests of the volume: %d, %v", left, err)
	}
}

// The consumers of the tenants find requests that were stored without a runner, in a
// volume that was sealed since.
func TestWorkOfSealedVolumesIsFound(t *testing.T) {
	t.Parallel()
	s := storetest.Start(t)
	want := map[string]bool{}
	for range 2 {
		for _, tenant := range []string{"a", "b", "c"} {
			e := requestOf(tenant, "")
			mustAppend(t, s, e, 0)
			want[e.About()] = true
		}
		seal(t, s)
	}
	seen := make(chan string, 20)
	share(t, s, fairness.Slots{Total: 1}, func(_ context.Context, d runner.Delivery) {
		mustAck(t, d)
		seen <- d.Event.About()
	})
	for range len(want) {
		id := soon(t, "a request", seen)
		if !want[id] {
			t.Errorf("%s is unknown or came twice", id)
		}
		delete(want, id)
	}
}

// A running runner takes the first request of a tenant at once.
func TestNewTenantIsServedAtOnce(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, storetest.StartServer(t, t.TempDir()), jetstream.Options{AckWait: time.Hour})
	queue.SetLookInterval(s.Queue, time.Hour) // a look would find the requests too
	seen := make(chan string, 1)
	share(t, s, fairness.Slots{Total: 1}, func(_ context.Context, d runner.Delivery) {
		mustAck(t, d)
		seen <- d.Event.Tenant
	})
	for i := range 20 {
		tenant := fmt.Sprintf("tenant%d", i)
		mustAppend(t, s, requestOf(tenant, ""), 0)
		if got := soon(t, "the request", seen); got != tenant {
			t.Errorf("got a request of %s", got)
		}
	}
}

// The queue of a tenant whose consumer was lost is restored. Its requests count as
// delivered before.
func TestPrepareWork(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	s := storetest.Open(t, server, jetstream.Options{})
	e := requestOf("a", "")
	mustAppend(t, s, e, 0)
	seal(t, s)
	_, js := raw(t, server)
	if err := js.DeleteConsumer(t.Context(), firstStream, queue.WorkConsumer(events.DefaultPool, "a")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.PrepareWork(t.Context(), events.DefaultPool, "a"); err != nil {
			t.Fatal(err)
		}
	}
	seen := make(chan runner.Delivery, 1)
	share(t, s, fairness.Slots{Total: 1}, func(_ context.Context, d runner.Delivery) {
		mustAck(t, d)
		seen <- d
	})
	if d := soon(t, "the request", seen); d.Event.About() != e.About() || d.Delivered < 2 {
		t.Errorf("delivery %d of %s", d.Delivered, d.Event.About())
	}
	if err := s.PrepareWork(t.Context(), events.DefaultPool, "a.*"); err == nil {
		t.Error("a tenant that is no token was accepted")
	}
}

// Requests that a runner ran or had taken ahead when it died are delivered to another
// one after the ack deadline, although nothing announces them.
func TestDeadRunner(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	opts := jetstream.Options{Client: jet.Options{Logger: (&lines{}).logger()}, AckWait: 500 * time.Millisecond}
	publish, err := server.Conn("dying")
	if err != nil {
		t.Fatal(err)
	}
	defer publish.Close()
	work, err := server.Conn("dying")
	if err != nil {
		t.Fatal(err)
	}
	defer work.Close()
	dying, err := jetstream.Open(t.Context(), publish, work, opts)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for i := range 10 {
		e := requestOf("a", fmt.Sprint(i))
		mustAppend(t, dying, e, 0)
		want[e.About()] = true
	}
	started, release := make(chan struct{}, 20), make(chan struct{})
	end := sync.OnceFunc(func() { close(release) })
	share(t, dying, fairness.Slots{Total: 1}, func(context.Context, runner.Delivery) {
		started <- struct{}{}
		<-release
	})
	t.Cleanup(end)
	soon(t, "a first run", started)
	work.Close() // its heartbeats end
	seen := make(chan string, 20)
	share(t, storetest.Open(t, server, opts), fairness.Slots{Total: 1}, func(_ context.Context, d runner.Delivery) {
		mustAck(t, d)
		seen <- d.Event.About()
	})
	for len(want) > 0 {
		delete(want, soon(t, "a request of the dead runner", seen))
	}
}

// Two requests are announced before the queue has them, and the second announcement
// finds the first request. The second request is found too.
func TestRequestIsKnownAfterItsAnnouncement(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	s := storetest.Open(t, server, jetstream.Options{AckWait: time.Hour})
	queue.SetLookInterval(s.Queue, time.Hour) // a look would find the requests too
	conn, _ := raw(t, server)
	asked := make(chan struct{}, 1000)
	if _, err := conn.Subscribe("$JS.API.CONSUMER.MSG.NEXT.>", func(*nats.Msg) { asked <- struct{}{} }); err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	first, second := requestOf("a", ""), requestOf("a", "")
	positions := []uint64{mustAppend(t, s, first, 0), mustAppend(t, s, second, 0)}
	postponed, again := make(chan struct{}, 2), make(chan string, 2)
	share(t, s, fairness.Slots{Total: 1}, func(ctx context.Context, d runner.Delivery) {
		if d.Delivered == 1 {
			if err := d.Nak(ctx, time.Hour); err != nil {
				t.Error(err)
			}
			postponed <- struct{}{}
			return
		}
		if d.Event.About() == first.About() {
			if err := queue.ReleaseUnannounced(ctx, s.Queue, events.DefaultPool, "a", positions[1]); err != nil {
				t.Error(err)
			}
		}
		mustAck(t, d)
		again <- d.Event.About()
	})
	for range positions {
		soon(t, "a first delivery", postponed)
	}
	for len(asked) > 0 {
		<-asked
	}
	queue.Announce(s.Queue, events.DefaultPool, "a")
	soon(t, "the question for what was announced", asked)
	if err := queue.ReleaseUnannounced(t.Context(), s.Queue, events.DefaultPool, "a", positions[0]); err != nil {
		t.Fatal(err)
	}
	queue.Announce(s.Queue, events.DefaultPool, "a")
	for _, want := range []events.Event{first, second} {
		if got := soon(t, "a request", again); got != want.About() {
			t.Errorf("got %s, want %s", got, want.About())
		}
	}
}

// A runner that starts takes no request before it has looked at the consumers: the look
// returns the requests in flight, and may fail.
func TestNothingIsTakenBeforeTheLook(t *testing.T) {
	t.Parallel()
	s := storetest.Start(t)
	mustAppend(t, s, requestOf("a", ""), 0)
	if n := queue.WaitingBeforeLook(t.Context(), s.Queue, events.DefaultPool, "a", 1); n != 1 {
		t.Errorf("%d requests wait, want 1", n)
	}
}
