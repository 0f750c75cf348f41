package webhook_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/resources/reads"
	"daybook/internal/webhook"
)

// countedFeed counts the reads of the ledger.
type countedFeed struct {
	webhook.Feed
	read atomic.Int64
}

func (f *countedFeed) Read(ctx context.Context, after uint64, limit int) ([]events.Event, error) {
	f.read.Add(1)
	return f.Feed.Read(ctx, after, limit)
}

// Webhooks of a tenant read nothing when events of other tenants are recorded, and their
// positions still advance.
func TestEventsOfOthersCostNothing(t *testing.T) {
	t.Parallel()
	feed := &countedFeed{}
	h := build(t, func(o *webhook.Options) { feed.Feed, o.Feed = o.Feed, feed })
	var hooks []webhook.RegisterResult
	for range 20 {
		hooks = append(hooks, h.register("http://127.0.0.1:9/")) // receives nothing
	}
	for _, one := range hooks {
		h.arrivedAt(one.Hook.ID, events.Event{Seq: hooks[len(hooks)-1].Seq})
	}
	before := feed.read.Load()
	var last events.Event
	for i := range 30 {
		last = events.New("other", time.Now(), &events.ExecutionRequested{ExecutionID: events.NewID(time.Now()), Pool: fmt.Sprint("pool", i)})
		var err error
		if last.Seq, err = h.store.Append(t.Context(), last, -1); err != nil {
			t.Fatal(err)
		}
	}
	for _, one := range hooks {
		h.arrivedAt(one.Hook.ID, last)
	}
	if n := feed.read.Load() - before; n != 0 {
		t.Errorf("20 webhooks read the ledger %d times for 30 events of another tenant", n)
	}
}

// hungFeed is a ledger whose server does not answer for some time.
type hungFeed struct {
	webhook.Feed
	gate    *reads.Gate
	running chan int // permits held during a read
}

func (f hungFeed) Read(ctx context.Context, after uint64, limit int) ([]events.Event, error) {
	err := reads.Wait(ctx, func() error {
		select {
		case f.running <- f.gate.Stats().Running:
		default: // one is enough
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return f.Feed.Read(ctx, after, limit)
}

// A webhook that waits for the ledger holds no permit.
func TestWebhooksWaitWithoutPermit(t *testing.T) {
	t.Parallel()
	gate, running := reads.New(reads.Options{Running: 1}), make(chan int, 1)
	h := build(t, func(o *webhook.Options) { o.Reads, o.Feed = gate, hungFeed{o.Feed, gate, running} })
	h.register("http://127.0.0.1:9/") // receives nothing
	if n := <-running; n != 0 {
		t.Errorf("%d permits are held while the webhook waits", n)
	}
}

// Receivers that hang or send endless responses delay no other webhook.
func TestHostileReceiversDelayNoOther(t *testing.T) {
	t.Parallel()
	// A webhook that waited for the response of another one would wait for longer than
	// the test.
	h := build(t, func(o *webhook.Options) { o.Timeout = time.Hour })
	release := make(chan struct{})
	defer close(release) // before the servers of the receivers are closed
	for _, answer := range []func(int, delivery, http.ResponseWriter, *http.Request){
		func(_ int, _ delivery, _ http.ResponseWriter, r *http.Request) {
			select {
			case <-release:
			case <-r.Context().Done():
			}
		},
		func(_ int, _ delivery, w http.ResponseWriter, r *http.Request) {
			for piece := make([]byte, 64<<10); r.Context().Err() == nil; {
				if _, err := w.Write(piece); err != nil {
					return
				}
			}
		},
		func(_ int, _ delivery, w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/hook?key=value", http.StatusTemporaryRedirect)
		},
	} {
		for range 5 {
			bad := receive(t, answer)
			bad.expect(h.register(bad.url).Secret)
		}
	}
	good := receive(t, status(http.StatusNoContent))
	reg := h.register(good.url)
	good.expect(reg.Secret)
	start := time.Now()
	const runs = 20
	for range runs {
		h.request("")
	}
	good.count(runs)
	t.Logf("%d events in %v", runs, time.Since(start))
	if n := len(good.sequences()); n != runs {
		t.Errorf("%d deliveries of %d events", n, runs)
	}
}
