package webhook_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/webhook"
)

// Every event recorded after the registration arrives once, in order, signed.
func TestDeliversInOrder(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.request("before")
	r := receive(t, status(http.StatusNoContent))
	reg := h.register(r.url)
	r.expect(reg.Secret)
	var want []uint64
	for range 30 {
		run := h.request("")
		want = append(want, run.Seq, h.complete(run).Seq)
	}
	r.count(len(want))
	if got := r.sequences(); !slices.Equal(got, want) {
		t.Errorf("delivered %d, want %d", got, want)
	}
	stored, err := h.store.Read(t.Context(), want[0]-1, 1)
	if err != nil {
		t.Fatal(err)
	}
	ce, err := events.Structured(stored[0])
	if err != nil {
		t.Fatal(err)
	}
	got := r.deliveries()[0]
	if got.event.Sequence != ce.Sequence || got.event.Type != ce.Type || got.event.Time != ce.Time || string(got.event.Data) != string(ce.Data) || got.event.Replayed {
		t.Errorf("delivered %+v, recorded %+v", got.event, ce)
	}
}

// Filters apply separately and together, also to events recorded before.
func TestDeliversSelectedEvents(t *testing.T) {
	t.Parallel()
	h := build(t)
	first, second := h.request("s1"), h.request("")
	checkpoint := events.New(events.LedgerTenant, time.Now(), &events.LedgerCheckpointed{LedgerID: "l"})
	var err error
	if checkpoint.Seq, err = h.store.Append(t.Context(), checkpoint, -1); err != nil {
		t.Fatal(err)
	}
	firstEnd, secondEnd := h.complete(first), h.complete(second)
	for name, tt := range map[string]struct {
		change func(*webhook.Registration)
		want   []uint64
	}{
		"all":         {func(*webhook.Registration) {}, positions(first, second, firstEnd, secondEnd)},
		"type":        {func(r *webhook.Registration) { r.Types = []events.Type{events.TypeExecutionCompleted} }, positions(firstEnd, secondEnd)},
		"checkpoints": {func(r *webhook.Registration) { r.Types = []events.Type{events.TypeLedgerCheckpointed} }, positions(checkpoint)},
		"session":     {func(r *webhook.Registration) { r.Session = "s1" }, positions(first, firstEnd)},
		"execution":   {func(r *webhook.Registration) { r.ExecutionID = second.About() }, positions(second, secondEnd)},
		"together": {func(r *webhook.Registration) {
			r.Session, r.Types = "s1", []events.Type{events.TypeExecutionCompleted, events.TypeExecutionFailed}
		}, positions(firstEnd)},
		"from the middle": {func(r *webhook.Registration) { r.After = ptr(second.Seq) }, positions(firstEnd, secondEnd)},
		// The request, which names the session, is not among the events read.
		"session from the middle": {func(r *webhook.Registration) { r.After, r.Session = ptr(second.Seq), "s1" }, positions(firstEnd)},
	} {
		r := receive(t, nil)
		reg := h.register(r.url, func(r *webhook.Registration) { r.After = ptr(uint64(0)) }, tt.change)
		r.expect(reg.Secret)
		h.arrivedAt(reg.Hook.ID, secondEnd)
		if got := r.sequences(); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}

// A receiver that fails several times gets the same message again, and then the next. No
// event is left out, and the order is kept.
func TestRetries(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(w http.ResponseWriter, r *http.Request){
		"error": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"throttled": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "3600") // limited to BackoffMax
			w.WriteHeader(http.StatusTooManyRequests)
		},
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		},
		"hangs up": func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				conn.Close()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := build(t)
			r := receive(t, func(n int, _ delivery, w http.ResponseWriter, r *http.Request) {
				if n <= 3 {
					fail(w, r)
				}
			})
			reg := h.register(r.url)
			r.expect(reg.Secret)
			first := h.request("")
			second := h.complete(first)
			r.count(5)
			h.arrivedAt(reg.Hook.ID, second)
			got := r.deliveries()
			if want := []uint64{first.Seq, first.Seq, first.Seq, first.Seq, second.Seq}; !slices.Equal(r.sequences(), want) {
				t.Errorf("%d, want %d", r.sequences(), want)
			}
			for _, d := range got[1:4] {
				if d.id != got[0].id || d.body != got[0].body {
					t.Errorf("tried again as %+v, first %+v", d, got[0])
				}
			}
			if n := len(h.recorded(events.TypeWebhookDeadLettered)); n != 0 {
				t.Errorf("%d dead letters", n)
			}
		})
	}
}

// An event that fails too often becomes a recorded dead letter, and the next event is
// sent. A retry delivers it or makes it a dead letter again.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	h := build(t)
	mended := make(chan struct{})
	r := receive(t, func(_ int, d delivery, w http.ResponseWriter, _ *http.Request) {
		select {
		case <-mended:
		default:
			if d.event.Type == string(events.TypeExecutionRequested) {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(w, "canary of the receiver")
			}
		}
	})
	reg := h.register(r.url)
	r.expect(reg.Secret)
	id := reg.Hook.ID
	first := h.request("")
	end := h.complete(first)
	second := h.request("")
	h.arrivedAt(id, second)
	want := []uint64{first.Seq, first.Seq, first.Seq, first.Seq, end.Seq, second.Seq, second.Seq, second.Seq, second.Seq}
	if got := r.sequences(); !slices.Equal(got, want) {
		t.Errorf("%d, want %d", got, want)
	}
	letters, err := h.service.DeadLetters(events.DefaultTenant, id)
	if err != nil || len(letters) != 2 {
		t.Fatalf("%+v, %v", letters, err)
	}
	if l := letters[0]; l.EventID != first.ID || l.Type != first.Type || l.Attempts != 4 || l.Status != 400 || l.Reason != "the receiver answered 400 Bad Request" || l.Retrying || l.FirstAttemptAt > l.DeadLetteredAt {
		t.Errorf("%+v", l)
	}
	// The receiver still fails: one attempt, and a dead letter again.
	if n, _, err := h.service.Retry(t.Context(), events.DefaultTenant, id, []uint64{first.Seq}, actor); n != 1 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	r.count(len(want) + 1)
	h.until(id, func(webhook.Hook) bool {
		letters, err = h.service.DeadLetters(events.DefaultTenant, id)
		return err == nil && letters[0].Attempts == 1 && !letters[0].Retrying
	})
	close(mended)
	if n, _, err := h.service.Retry(t.Context(), events.DefaultTenant, id, nil, actor); n != 2 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	h.until(id, func(v webhook.Hook) bool { return v.DeadLetters == 0 })
	if got := r.sequences()[len(want)+1:]; !slices.Equal(got, positions(first, second)) {
		t.Errorf("retried %d", got)
	}
	if n := len(h.recorded(events.TypeWebhookRedelivered)); n != 2 {
		t.Errorf("%d recorded redeliveries", n)
	}
	if _, _, err := h.service.Retry(t.Context(), events.DefaultTenant, id, nil, actor); err == nil {
		t.Error("there was nothing to retry")
	}
}

// A receiver that fails, is slow or sends endless data delays no other webhook.
func TestFailingReceiverDelaysNoOther(t *testing.T) {
	t.Parallel()
	h := build(t, func(o *webhook.Options) { o.Attempts, o.BackoffFirst, o.BackoffMax = 1000, time.Hour, time.Hour })
	release := make(chan struct{})
	defer close(release)
	bad := map[string]*receiver{
		"fails": receive(t, status(http.StatusBadGateway)),
		"hangs": receive(t, func(_ int, _ delivery, _ http.ResponseWriter, r *http.Request) {
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}),
	}
	for _, r := range bad {
		r.expect(h.register(r.url).Secret)
	}
	good := receive(t, nil)
	reg := h.register(good.url)
	good.expect(reg.Secret)
	var last events.Event
	for range 20 {
		last = h.request("")
	}
	h.arrivedAt(reg.Hook.ID, last)
	if n := len(good.deliveries()); n != 20 {
		t.Errorf("%d deliveries", n)
	}
	for name, r := range bad {
		r.count(1)
		if n := len(r.deliveries()); n != 1 {
			t.Errorf("%s: %d attempts", name, n)
		}
	}
	failing := 0
	for _, v := range h.service.List(events.DefaultTenant) {
		if v.State == webhook.StateFailing && v.LastError == "the receiver answered 502 Bad Gateway" && v.Attempts == 1 && v.NextAttempt != "" {
			failing++
		}
	}
	if failing != 1 {
		t.Errorf("%+v", h.service.List(events.DefaultTenant))
	}
}

// An endless response is cut, and a slow one fails.
func TestSlowAndFlooding(t *testing.T) {
	t.Parallel()
	h := build(t)
	impatient := build(t, func(o *webhook.Options) { o.Timeout, o.Attempts = 300*time.Millisecond, 1<<30 })
	slow := receive(t, func(n int, _ delivery, _ http.ResponseWriter, r *http.Request) {
		if n == 1 {
			<-r.Context().Done() // until the client times out
		}
	})
	slow.expect(impatient.register(slow.url).Secret)
	flood := receive(t, func(_ int, _ delivery, w http.ResponseWriter, _ *http.Request) {
		for chunk := make([]byte, 32<<10); ; {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	reg := h.register(flood.url)
	flood.expect(reg.Secret)
	e := h.request("")
	h.arrivedAt(reg.Hook.ID, e)
	if n := len(flood.deliveries()); n != 1 {
		t.Errorf("a flood counted as %d failures", n-1)
	}
	late := impatient.request("")
	slow.count(2)
	// A busy machine may be too slow for another delivery.
	if got := slow.sequences(); len(slices.Compact(got)) != 1 || got[0] != late.Seq {
		t.Errorf("%d", got)
	}
}

// A receiver that is down and comes back gets every event.
func TestReceiverComesBack(t *testing.T) {
	t.Parallel()
	h := build(t, func(o *webhook.Options) { o.Attempts = 1 << 30 })
	r := receive(t, nil)
	reg := h.register(r.url)
	r.expect(reg.Secret)
	before := h.request("")
	h.arrivedAt(reg.Hook.ID, before)
	address := r.server.Listener.Addr().String()
	r.server.Close()
	during := []events.Event{h.request(""), h.request("")}
	h.until(reg.Hook.ID, func(v webhook.Hook) bool { return v.Attempts > 3 && strings.Contains(v.LastError, "refused") })
	back := httptest.NewUnstartedServer(r)
	back.Listener.Close()
	back.Listener = listenAt(t, address)
	back.Start()
	t.Cleanup(back.Close)
	h.arrivedAt(reg.Hook.ID, during[1])
	if got, want := r.sequences(), positions(before, during[0], during[1]); !slices.Equal(got, want) {
		t.Errorf("%d, want %d", got, want)
	}
}

// 410 Gone stops deliveries until a retry is requested. They continue with the event
// that was answered with 410.
func TestGoneReceiver(t *testing.T) {
	t.Parallel()
	h := build(t)
	r := receive(t, func(n int, _ delivery, w http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			w.WriteHeader(http.StatusGone)
		}
	})
	reg := h.register(r.url)
	r.expect(reg.Secret)
	first, second := h.request(""), h.request("")
	v := h.until(reg.Hook.ID, func(v webhook.Hook) bool { return v.State == webhook.StateDisabled })
	if v.LastError != "the receiver answered 410 Gone" {
		t.Errorf("%+v", v)
	}
	h.stop()
	h.start() // the webhook stays disabled
	if v, err := h.service.Get(events.DefaultTenant, reg.Hook.ID); err != nil || v.State != webhook.StateDisabled || len(r.deliveries()) != 1 {
		t.Errorf("%+v, %v after %d requests", v, err, len(r.deliveries()))
	}
	if _, _, err := h.service.Retry(t.Context(), events.DefaultTenant, reg.Hook.ID, nil, actor); err != nil {
		t.Fatal(err)
	}
	h.arrivedAt(reg.Hook.ID, second)
	if got, want := r.sequences(), positions(first, first, second); !slices.Equal(got, want) {
		t.Errorf("%d, want %d", got, want)
	}
}
