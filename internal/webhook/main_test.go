package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/internal/webhook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// waitTimeout is the time limit for a condition that a test waits for.
const waitTimeout = 20 * time.Second

var actor = events.Actor{Principal: "tester", Transport: "embed"}

// testLedger is a ledger with a webhook service that can be stopped and started.
type testLedger struct {
	t       *testing.T
	store   *jetstream.Store
	opts    webhook.Options
	service *webhook.Service
	log     *logged
	stop    func()
}

func build(t *testing.T, change ...func(*webhook.Options)) *testLedger {
	t.Helper()
	h := &testLedger{t: t, store: storetest.Start(t), log: &logged{}}
	h.opts = webhook.Options{
		Journal: h.store, Feed: h.store, Dir: filepath.Join(t.TempDir(), "webhooks"),
		SessionOf: h.sessionOf, AllowPrivate: true, Timeout: waitTimeout,
		Attempts: 4, BackoffFirst: time.Millisecond, BackoffMax: 4 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, c := range change {
		c(&h.opts)
	}
	h.start()
	return h
}

// start opens the service and delivers until stop or the end of the test.
func (h *testLedger) start() {
	h.t.Helper()
	var err error
	if h.service, err = webhook.Open(h.t.Context(), h.opts); err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.service.Run(ctx) }()
	h.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			h.t.Errorf("Run: %v", err)
		}
	})
	h.t.Cleanup(h.stop)
}

// sessionOf reads the sessions from the requested event in the ledger.
func (h *testLedger) sessionOf(ctx context.Context, tenant string, _ uint64, execution string) ([]string, error) {
	list, err := h.store.Execution(ctx, tenant, execution)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return events.SessionsOf(list[0].Data.(*events.ExecutionRequested)), nil
}

func (h *testLedger) record(d events.Data) events.Event {
	h.t.Helper()
	e := events.New(events.DefaultTenant, time.Now(), d)
	var err error
	if e.Seq, err = h.store.Append(h.t.Context(), e, -1); err != nil {
		h.t.Fatal(err)
	}
	return e
}

// request records a run; its events carry a session, if any.
func (h *testLedger) request(session string) events.Event {
	h.t.Helper()
	return h.record(&events.ExecutionRequested{ExecutionID: events.NewID(time.Now()), Pool: events.DefaultPool, Session: session})
}

// complete records the end of a run.
func (h *testLedger) complete(run events.Event) events.Event {
	h.t.Helper()
	return h.record(&events.ExecutionCompleted{Ending: events.Ending{ExecutionID: run.About()}})
}

func (h *testLedger) register(url string, change ...func(*webhook.Registration)) webhook.RegisterResult {
	h.t.Helper()
	r := webhook.Registration{Tenant: events.DefaultTenant, URL: url, Actor: actor}
	for _, c := range change {
		c(&r)
	}
	got, err := h.service.Register(h.t.Context(), r)
	if err != nil {
		h.t.Fatal(err)
	}
	return got
}

// until waits for a condition on a webhook.
func (h *testLedger) until(id string, wanted func(webhook.Hook) bool) webhook.Hook {
	h.t.Helper()
	for late := time.After(waitTimeout); ; {
		v, err := h.service.Get(events.DefaultTenant, id)
		if err != nil {
			h.t.Fatal(err)
		}
		if wanted(v) {
			return v
		}
		select {
		case <-time.After(time.Millisecond): // there is no notification
		case <-late:
			h.t.Fatalf("still %+v", v)
		}
	}
}

// arrivedAt waits until every event up to a position is delivered or given up.
func (h *testLedger) arrivedAt(id string, e events.Event) {
	h.t.Helper()
	h.until(id, func(v webhook.Hook) bool { at, _ := strconv.ParseUint(v.Position, 10, 64); return at >= e.Seq })
}

// recorded returns the events of a type.
func (h *testLedger) recorded(typ events.Type) []events.Event {
	h.t.Helper()
	list, err := h.store.Read(h.t.Context(), 0, 100_000)
	if err != nil {
		h.t.Fatal(err)
	}
	var out []events.Event
	for _, e := range list {
		if e.Type == typ {
			out = append(out, e)
		}
	}
	return out
}

// delivery is one request as a receiver got it.
type delivery struct {
	id    string
	event events.CloudEvent
	body  string
	at    string
}

// receiver checks every delivery by the specification and answers as configured.
type receiver struct {
	t      *testing.T
	url    string
	server *httptest.Server

	mu          sync.Mutex
	secret      webhook.Secret
	answer      func(n int, d delivery, w http.ResponseWriter, r *http.Request)
	got         []delivery // in order of arrival, with failed attempts
	arrived     chan struct{}
	tell        sync.Once
	secretKnown chan struct{} // closed once the secret is known
}

func receive(t *testing.T, answer func(n int, d delivery, w http.ResponseWriter, r *http.Request)) *receiver {
	t.Helper()
	r := &receiver{t: t, answer: answer, arrived: make(chan struct{}, 1), secretKnown: make(chan struct{})}
	r.server = httptest.NewServer(r)
	t.Cleanup(r.server.Close)
	r.url = r.server.URL + "/hook?key=value"
	return r
}

// expect sets the secret to check with.
func (r *receiver) expect(s webhook.Secret) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.secret = s
	r.tell.Do(func() { close(r.secretKnown) })
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the attempt was canceled
	}
	select {
	case <-r.secretKnown: // the first delivery may be faster than the response to the registration
	case <-req.Context().Done():
		return
	}
	r.mu.Lock()
	secret := r.secret
	r.mu.Unlock()
	if err := verify(secret.Reveal(), req.Header, body); err != nil {
		r.t.Errorf("delivery: %v", err)
	}
	if req.Method != http.MethodPost || req.URL.RequestURI() != "/hook?key=value" || req.Header.Get("Content-Type") != "application/cloudevents+json; charset=utf-8" {
		r.t.Errorf("%s %s %v", req.Method, req.URL, req.Header)
	}
	d := delivery{id: req.Header.Get("webhook-id"), body: string(body), at: req.Header.Get("webhook-timestamp")}
	if err := json.Unmarshal(body, &d.event); err != nil || d.event.ID != d.id {
		r.t.Errorf("%v in %s", err, body)
	}
	r.mu.Lock()
	r.got = append(r.got, d)
	n := len(r.got)
	r.mu.Unlock()
	select {
	case r.arrived <- struct{}{}:
	default:
	}
	if r.answer != nil {
		r.answer(n, d, w, req)
	}
}

func (r *receiver) deliveries() []delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]delivery{}, r.got...)
}

// sequences returns the positions of the received events in order of arrival.
func (r *receiver) sequences() []uint64 {
	var list []uint64
	for _, d := range r.deliveries() {
		seq, err := strconv.ParseUint(d.event.Sequence, 10, 64)
		if err != nil {
			r.t.Error(err)
		}
		list = append(list, seq)
	}
	return list
}

// count waits until a number of requests has arrived.
func (r *receiver) count(n int) {
	r.t.Helper()
	for late := time.After(waitTimeout); len(r.deliveries()) < n; {
		select {
		case <-r.arrived:
		case <-late:
			r.t.Fatalf("%d requests came, want %d", len(r.deliveries()), n)
		}
	}
}

// status returns a response with a fixed status.
func status(code int) func(int, delivery, http.ResponseWriter, *http.Request) {
	return func(_ int, _ delivery, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// logged collects log output.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func positions(list ...events.Event) []uint64 {
	out := make([]uint64, len(list))
	for i, e := range list {
		out[i] = e.Seq
	}
	return out
}

func ptr[T any](v T) *T { return &v }

var _ fmt.Stringer = webhook.Secret{}
