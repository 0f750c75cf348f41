package ledger_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/ledger"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// nats.go v1.55.0: storing an object starts this goroutine and clears its channel
		// when done. If the channel is cleared first, the goroutine waits on a nil channel
		// permanently. It belongs to the client library, and this package cannot end it.
		goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"))
}

const tenant = events.DefaultTenant

var (
	alice  = events.Actor{Principal: "alice", Transport: "http"}
	robot  = ledger.Start{Runner: "runner-1", Engine: events.Engine{ID: "engine-a", V8Version: "13.6"}}
	heapA  = strings.Repeat("a", 64)
	heapB  = "aa" + strings.Repeat("b", 62) // earlier versions recorded its tags on the subject of heapA's
	engine = "engine-a"
)

// testLedger is a ledger over a real stream, with helpers for tests.
type testLedger struct {
	*ledger.Ledger
	t     testing.TB
	store *jetstream.Store
}

func openTestLedger(t testing.TB, opts ledger.Options) *testLedger {
	t.Helper()
	return openTestLedgerOn(t, storetest.Start(t), opts)
}

// openTestLedgerOn returns another ledger on a stream, as in another process.
func openTestLedgerOn(t testing.TB, store *jetstream.Store, opts ledger.Options) *testLedger {
	if opts.Logger == nil {
		opts.Logger = storetest.Logger(t)
	}
	if opts.AnswerTimeout == 0 { // a machine under load may need more than the default of 4.5 s
		opts.AnswerTimeout = time.Minute
	}
	return &testLedger{Ledger: ledger.New(store, opts), t: t, store: store}
}

func (b *testLedger) submit(s ledger.Submission) ledger.Request {
	b.t.Helper()
	if s.Tenant == "" {
		s.Tenant = tenant
	}
	s.Actor = alice
	r, err := b.Submit(b.t.Context(), s)
	if err != nil {
		b.t.Fatalf("submit: %v", err)
	}
	return b.request(r.ExecutionID)
}

// request reads a request, as a runner would receive it.
func (b *testLedger) request(id string) ledger.Request {
	b.t.Helper()
	req, ok := ledger.NewRequest(b.control(id)[0])
	if !ok {
		b.t.Fatalf("execution %s does not begin with a request", id)
	}
	return req
}

func (b *testLedger) start(req ledger.Request, redelivered bool) *ledger.StartedAttempt {
	b.t.Helper()
	p, err := b.Plan(b.t.Context(), req, redelivered)
	if err != nil {
		b.t.Fatalf("plan: %v", err)
	}
	run, err := b.Start(b.t.Context(), p, robot)
	if err != nil {
		b.t.Fatalf("start: %v", err)
	}
	return run
}

// control reads the control events of an execution directly from the store.
func (b *testLedger) control(id string) []events.Event {
	b.t.Helper()
	list, err := b.store.Execution(b.t.Context(), tenant, id)
	if err != nil {
		b.t.Fatal(err)
	}
	return list
}

// terminals returns the recorded terminal events, of which there must be one at most.
func (b *testLedger) terminals(id string) []events.Event {
	b.t.Helper()
	var out []events.Event
	for _, e := range b.control(id) {
		if e.Type.Terminal() {
			out = append(out, e)
		}
	}
	return out
}

func (b *testLedger) entries(session string) []*events.SessionEntryRecorded {
	b.t.Helper()
	var out []*events.SessionEntryRecorded
	for _, e := range b.all() {
		if d, ok := e.Data.(*events.SessionEntryRecorded); ok && d.SessionID == events.SessionID(tenant, session) {
			out = append(out, d)
		}
	}
	return out
}

func (b *testLedger) edits(heap string) []*events.HeapTagged {
	b.t.Helper()
	var out []*events.HeapTagged
	_, err := b.store.Each(b.t.Context(), events.HeapSubject(tenant, heap), 0, func(e events.Event) error {
		out = append(out, e.Data.(*events.HeapTagged))
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

func (b *testLedger) all() []events.Event {
	b.t.Helper()
	list, err := b.store.Read(b.t.Context(), 0, 1<<20)
	if err != nil {
		b.t.Fatal(err)
	}
	return list
}

func (b *testLedger) lastSeq() uint64 {
	b.t.Helper()
	seq, err := b.store.LastSeq(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return seq
}

// append stores an event directly in the store.
func (b *testLedger) append(d events.Data) uint64 {
	b.t.Helper()
	seq, err := b.store.Append(b.t.Context(), events.New(tenant, time.Now(), d), ledger.AnyPosition)
	if err != nil {
		b.t.Fatal(err)
	}
	return seq
}

// fromTheFuture is an event of an unknown type.
func fromTheFuture(id string) *events.Unknown {
	return &events.Unknown{
		Type: "daybook.execution.paused.v1", StoredSubject: "ledger.0001." + events.ExecSubject(tenant, id), Concerns: id, Body: []byte(`{}`),
	}
}

// types returns the types of events, shortened to their middle part.
func types(list []events.Event) string {
	var names []string
	for _, e := range list {
		names = append(names, strings.Split(string(e.Type), ".")[2])
	}
	return strings.Join(names, " ")
}

func wantCode(t testing.TB, err error, code ledger.Code, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %s", code)
	}
	if got := ledger.CodeOf(err); got != code {
		t.Fatalf("code %s, want %s: %v", got, code, err)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("message %q does not contain %q", err, p)
		}
	}
}

// interposed lets a test act between a ledger's decision and its append, or fail the
// append.
type interposed struct {
	*jetstream.Store
	before func(ctx context.Context, e events.Event) error
}

func (s *interposed) Append(ctx context.Context, e events.Event, after int64) (uint64, error) {
	if err := s.before(ctx, e); err != nil {
		return 0, err
	}
	return s.Store.Append(ctx, e, after)
}

var errDisk = errors.New("disk on fire")

func ptr[T any](v T) *T { return &v }
