package contextstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"daybook/events"
	"daybook/internal/contextstore"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/projections"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"))
}

var (
	began  = time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	client = events.Actor{Principal: "anonymous", Transport: "mcp-http"}
)

// clock is a clock that tests advance.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// testLedger is a ledger on a real JetStream store, with the projections that follow it.
type testLedger struct {
	t     testing.TB
	log   *jetstream.Store
	views *projections.Store
	clock *clock
}

func openTestLedger(t testing.TB) *testLedger {
	t.Helper()
	b := &testLedger{t: t, log: storetest.Start(t), clock: &clock{now: began}}
	b.views = follow(t, b.log, filepath.Join(t.TempDir(), "projections.db"))
	return b
}

// follow opens projections that follow a ledger until the test ends.
func follow(t testing.TB, log *jetstream.Store, path string) *projections.Store {
	t.Helper()
	views, err := projections.Open(t.Context(), projections.Options{Path: path, Texts: log})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- views.Run(ctx, log) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("projections: %v", err)
		}
		if err := views.Close(); err != nil {
			t.Error(err)
		}
	})
	return views
}

// store returns a Store on the ledger, as one process has it.
func (b *testLedger) store(edit ...func(*contextstore.Options)) *contextstore.Store {
	b.t.Helper()
	opts := contextstore.Options{
		Log: b.log, Views: b.views, Now: b.clock.Now, HeapBytes: func() uint64 { return 0 },
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	for _, f := range edit {
		f(&opts)
	}
	s, err := contextstore.New(opts)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// append records an event and waits until it can be read.
func (b *testLedger) append(d events.Data) uint64 {
	b.t.Helper()
	seq, err := b.log.Append(b.t.Context(), events.New(events.DefaultTenant, b.clock.Now(), d), -1)
	if err != nil {
		b.t.Fatal(err)
	}
	b.wait(seq)
	return seq
}

func (b *testLedger) wait(seq uint64) {
	b.t.Helper()
	if err := b.views.Wait(b.t.Context(), seq); err != nil {
		b.t.Fatal(err)
	}
}

// settle waits until all recorded events can be read.
func (b *testLedger) settle() {
	b.t.Helper()
	last, err := b.log.LastSeq(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	b.wait(last)
}

func (b *testLedger) count(typ events.Type) (n int) {
	b.t.Helper()
	last, err := b.log.LastSeq(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	list, err := b.log.Read(b.t.Context(), 0, int(last)+1)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, e := range list {
		if e.Type == typ {
			n++
		}
	}
	return n
}

func named(n int) contextstore.Key {
	return contextstore.Key{Tenant: events.DefaultTenant, Kind: events.ContextSession, ID: fmt.Sprint("session ", n)}
}

func get(t testing.TB, s *contextstore.Store, k contextstore.Key) projections.Context {
	t.Helper()
	c, err := s.Get(t.Context(), k, "get_context")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func set(t testing.TB, s *contextstore.Store, k contextstore.Key, name, value string) projections.Context {
	t.Helper()
	c, _, err := s.Set(t.Context(), k, custom(name, value), client)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func note(t testing.TB, s *contextstore.Store, k contextstore.Key, at time.Time, n int) {
	t.Helper()
	err := s.Note(t.Context(), k, contextstore.Call{Tool: "search", Arguments: map[string]any{"n": n}, CalledAt: at, Summary: fmt.Sprint("result ", n), ResultSHA256: events.Hash(fmt.Append(nil, n))})
	if err != nil {
		t.Fatal(err)
	}
}
