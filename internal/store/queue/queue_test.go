package queue_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"daybook/events"
	"daybook/internal/resources/fairness"
	"daybook/internal/store/jet"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/queue"
	"daybook/internal/store/storetest"
	"daybook/runner"
)

// patience is how long a test waits for a condition.
const patience = 2 * time.Minute

func soon[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("%s did not come", what)
		panic("unreachable")
	}
}

// A runner that stops returns the requests that the server sent it last. They are
// delivered to the next runner at once, before their ack deadline.
func TestStoppingReturnsRequests(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, storetest.StartServer(t, t.TempDir()), jetstream.Options{AckWait: time.Hour})
	for range 10 {
		stop := consume(t, s, 4, func(ctx context.Context, d runner.Delivery) {
			if err := d.Nak(ctx, 0); err != nil {
				t.Error(err)
			}
		})
		appended := make(chan struct{})
		go func() {
			defer close(appended)
			mustAppend(t, s, requested(newID()), 0)
		}()
		stop() // while the request is on its way
		<-appended
	}
	seen := make(chan string, 10)
	consume(t, s, 4, func(ctx context.Context, d runner.Delivery) {
		if err := d.Ack(ctx); err != nil {
			t.Error(err)
		}
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

// A released slot takes one further request while the function still runs, and no more:
// the number of functions without a slot is bounded too.
func TestReleaseSlot(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, storetest.StartServer(t, t.TempDir()), jetstream.Options{AckWait: time.Hour})
	started := make(chan string, 10)
	goOn := make(chan struct{})
	stop := consume(t, s, 1, func(ctx context.Context, d runner.Delivery) {
		started <- d.Event.About()
		d.ReleaseSlot()
		d.ReleaseSlot()
		<-goOn
		if err := d.Ack(ctx); err != nil {
			t.Error(err)
		}
	})
	for range 4 {
		mustAppend(t, s, requested(newID()), 0)
	}
	soon(t, "a first request", started)
	soon(t, "a second request beside the first", started)
	select {
	case <-started:
		t.Error("a third request was taken while two were unfinished")
	case <-time.After(50 * time.Millisecond):
	}
	close(goOn)
	soon(t, "a third request", started)
	soon(t, "a fourth request", started)
	stop()
}

func TestNakWithDelay(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, storetest.StartServer(t, t.TempDir()), jetstream.Options{AckWait: time.Hour})
	mustAppend(t, s, requested(newID()), 0)
	const delay = 300 * time.Millisecond
	type delivery struct {
		n  int
		at time.Time
	}
	seen := make(chan delivery, 10)
	consume(t, s, 2, func(ctx context.Context, d runner.Delivery) {
		seen <- delivery{d.Delivered, time.Now()}
		if d.Delivered < 3 {
			if err := d.Nak(ctx, delay); err != nil {
				t.Error(err)
			}
			return
		}
		if err := d.Ack(ctx); err != nil {
			t.Error(err)
		}
	})
	last := soon(t, "the first delivery", seen)
	for n := 2; n <= 3; n++ {
		d := soon(t, "the next delivery", seen)
		if took := d.at.Sub(last.at); d.n != n || took < delay {
			t.Errorf("delivery %d came after %v; want %d after %v", d.n, took, n, delay)
		}
		last = d
	}
}

// A stored header that is named like the status of an answer is not taken for one: no
// proof covers it.
func TestWorkWithAStatusHeader(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"404", "409", "100", "503"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			server := storetest.StartServer(t, t.TempDir())
			s := storetest.Open(t, server, jetstream.Options{})
			_, js := raw(t, server)
			id := newID()
			w, err := events.Encode(requested(id))
			if err != nil {
				t.Fatal(err)
			}
			w.Header["Status"], w.Header["Description"] = []string{code}, []string{"Consumer Deleted"}
			if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: "ledger.0001." + w.Subject, Header: w.Header, Data: w.Body}); err != nil {
				t.Fatal(err)
			}
			mustAppend(t, s, requested(newID()), 0) // the store creates the consumer of the tenant
			seen := make(chan runner.Delivery, 10)
			consume(t, s, 1, func(ctx context.Context, d runner.Delivery) {
				if err := d.Ack(ctx); err != nil {
					t.Error(err)
				}
				seen <- d
			})
			for got := ""; got != id; {
				d := soon(t, "the request", seen)
				if got = d.Event.About(); d.Unreadable != nil {
					t.Errorf("got %s, %v", got, d.Unreadable)
				}
			}
		})
	}
}

// A request that cannot be read is delivered with the data of its subject and the
// reason. The requests after it run.
func TestUnreadableWork(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	log := &lines{}
	s := storetest.Open(t, server, jetstream.Options{Client: jet.Options{Logger: log.logger()}, AckWait: time.Hour})
	_, js := raw(t, server)
	if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: "ledger.0001.default.run.default.bad", Data: []byte("no event")}); err != nil {
		t.Fatal(err)
	}
	id := newID()
	mustAppend(t, s, requested(id), 0)
	seen := make(chan runner.Delivery, 10)
	consume(t, s, 1, func(ctx context.Context, d runner.Delivery) {
		if err := d.Ack(ctx); err != nil {
			t.Error(err)
		}
		seen <- d
	})
	bad := soon(t, "the bad request", seen)
	if _, malformed := errors.AsType[*events.DecodeError](bad.Unreadable); !malformed || bad.Event.About() != "bad" || bad.Event.Tenant != tenant || bad.Event.Seq != 1 {
		t.Errorf("the bad request is %+v, %v", bad.Event, bad.Unreadable)
	}
	if got := soon(t, "the good request", seen); got.Event.About() != id || got.Unreadable != nil {
		t.Errorf("got %s, %v", got.Event.About(), got.Unreadable)
	}
	c, err := js.Consumer(t.Context(), firstStream, queue.WorkConsumer("default", tenant))
	if err != nil {
		t.Fatal(err)
	}
	for {
		info, err := c.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if info.AckFloor.Stream == 2 && info.NumAckPending == 0 {
			break
		}
	}
	if text := log.String(); !strings.Contains(text, "position=1") || !strings.Contains(text, "cannot be read") {
		t.Errorf("the log says %q", text)
	}
}

// A deleted consumer is created again, and no request is lost.
func TestConsumerIsCreatedAgain(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	s := storetest.Open(t, server, jetstream.Options{})
	seen := make(chan string, 10)
	consume(t, s, 2, func(ctx context.Context, d runner.Delivery) {
		if err := d.Ack(ctx); err != nil {
			t.Error(err)
		}
		seen <- d.Event.About()
	})
	first, second := newID(), newID()
	mustAppend(t, s, requested(first), 0)
	if got := soon(t, "the first request", seen); got != first {
		t.Fatalf("got %s", got)
	}
	_, js := raw(t, server)
	if err := js.DeleteConsumer(t.Context(), firstStream, queue.WorkConsumer("default", tenant)); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, s, requested(second), 0)
	for soon(t, "the second request", seen) != second {
		// The new consumer starts with the first request again.
	}
}

func TestConsumeNeedsSlotsAndAPool(t *testing.T) {
	t.Parallel()
	s := storetest.Start(t)
	fn := func(context.Context, runner.Delivery) {}
	if err := s.Consume(t.Context(), "default", fairness.Slots{}, fn); err == nil {
		t.Error("no slots were accepted")
	}
	if err := s.Consume(t.Context(), "a.*", fairness.Slots{Total: 1}, fn); err == nil {
		t.Error("a pool that is no token was accepted")
	}
}

// Only a cancel request cancels a run; other messages on the subject do not.
func TestStrayMessagesDoNotCancel(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	s := storetest.Open(t, server, jetstream.Options{})
	queue.SetCancelTimeout(s.Queue, patience)
	id := newID()
	calls := make(chan struct{}, 10)
	stop, err := s.ListenCancel(tenant, id, func() bool { calls <- struct{}{}; return true })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	nc, _ := raw(t, server)
	for _, body := range []string{"", "{}", "cancel\n"} {
		if err := nc.PublishRequest(events.CancelSubject(tenant, id), "reply", []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if answered, err := s.RequestCancel(t.Context(), tenant, id); err != nil || !answered {
		t.Fatalf("a real request: %v, %v", answered, err)
	}
	if n := len(calls); n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
	if answered, err := s.RequestCancel(t.Context(), "other", id); err != nil || answered {
		t.Errorf("another tenant's request: %v, %v", answered, err)
	}
}

// A run that takes long to stop delays neither the cancel requests of other runs nor a
// second one of its own.
func TestSlowCancelsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	bothKinds(t, testSlowCancels)
}

func testSlowCancels(t *testing.T, s *jetstream.Store) {
	slow := newID()
	release := make(chan struct{})
	var both sync.WaitGroup
	both.Add(2)
	stop, err := s.ListenCancel(tenant, slow, func() bool { both.Done(); <-release; return true })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	answers := make(chan bool, 2)
	for range 2 {
		go func() {
			answered, err := s.RequestCancel(context.Background(), tenant, slow)
			if err != nil {
				t.Error(err)
			}
			answers <- answered
		}()
	}
	both.Wait()
	close(release)
	for range 2 {
		if !soon(t, "the answer", answers) {
			t.Error("not answered")
		}
	}
}
