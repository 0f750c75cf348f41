package migration_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"daybook/events"
	"daybook/internal/dev/tier"
	"daybook/internal/exec/migration"
	"daybook/internal/exec/replay"
	"daybook/internal/exec/worker"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/ledger"
	"daybook/projections"
	"daybook/runner"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// nats.go v1.55.0 starts this goroutine for each stored object and may leave it
		// waiting on a channel that it removed. This module cannot stop it.
		goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"))
}

// patience limits how long a test waits for a condition.
const patience = 2 * time.Minute

var tester = events.Actor{Principal: "tester", Transport: "embed"}

// testServer is a ledger whose runner has workers of an earlier engine.
type testServer struct {
	t       *testing.T
	store   *jetstream.Store
	ledger  *ledger.Ledger
	sources *projections.Store
	workers *countingWorkers // of the present engine
}

// countingWorkers counts tasks, and can fail before one.
type countingWorkers struct {
	runner.Workers
	tasks  atomic.Int64
	before func(n int64) error
}

func (w *countingWorkers) Run(ctx context.Context, t runner.Task, lines func(context.Context, []events.Line) error) (runner.Outcome, error) {
	n := w.tasks.Add(1)
	if w.before != nil {
		if err := w.before(n); err != nil {
			return runner.Outcome{}, err
		}
	}
	return w.Workers.Run(ctx, t, lines)
}

func newTestServer(t *testing.T) *testServer {
	t.Helper()
	store := storetest.Open(t, storetest.StartServer(t, t.TempDir()), jetstream.Options{BlobGracePeriod: -1})
	pool := func(prelude string) *worker.Pool {
		p := worker.New(worker.Options{Prelude: prelude, Logger: storetest.Logger(t)})
		t.Cleanup(func() {
			if err := p.Close(); err != nil {
				t.Errorf("close the workers: %v", err)
			}
		})
		return p
	}
	s := &testServer{t: t, store: store, ledger: ledger.New(store, ledger.Options{Logger: storetest.Logger(t)}), workers: &countingWorkers{Workers: pool("globalThis.isPresent = true;")}}
	var err error
	if s.sources, err = projections.Open(t.Context(), projections.Options{Path: filepath.Join(t.TempDir(), "projections.db"), Texts: store, Logger: storetest.Logger(t)}); err != nil {
		t.Fatal(err)
	}
	r := runner.New(runner.Options{
		Slots: 2, Ledger: s.ledger, Work: store, Heaps: store, Texts: store, Workers: pool("/* earlier */"),
		DrainTimeout: patience, RetryDelay: time.Millisecond, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := r.Run(ctx); err != nil {
			t.Errorf("runner: %v", err)
		}
	})
	running.Go(func() {
		if err := s.sources.Run(ctx, store); err != nil && ctx.Err() == nil {
			t.Errorf("projections: %v", err)
		}
	})
	t.Cleanup(func() {
		stop()
		running.Wait()
		if err := s.sources.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// run runs a script from a heap, and returns the heap that it left and its id.
func (s *testServer) run(code, heap string) (left, id string) {
	s.t.Helper()
	receipt, err := s.ledger.Submit(s.t.Context(), ledger.Submission{Tenant: events.DefaultTenant, Code: code, Heap: heap, Actor: tester})
	if err != nil {
		s.t.Fatalf("submit %.60q: %v", code, err)
	}
	for late := time.After(patience); ; {
		rec, err := s.ledger.Recording(s.t.Context(), events.DefaultTenant, receipt.ExecutionID)
		if err == nil && rec.Ending.Heap != nil {
			return rec.Ending.Heap.SHA256, receipt.ExecutionID
		}
		if ledger.CodeOf(err) != ledger.CodeConflict {
			s.t.Fatalf("%.60q leaves no heap: %v", code, err)
		}
		select {
		case <-late:
			s.t.Fatalf("%.60q does not end", code)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// memory counts the heaps that are held at a time.
type memory struct{}

func (memory) OpenAccount(ctx context.Context) (context.Context, runner.MemoryAccount) {
	return ctx, account{}
}

type account struct{}

func (account) Reserve(context.Context, int64) error { return nil }
func (account) Release()                             {}

// migrator returns a Migrator that stores the heap of each replay, or that of the last one.
func (s *testServer) migrator(leg time.Duration, heapMB int64) *migration.Migrator {
	return migration.New(migration.Options{
		Replayer: replay.New(replay.Options{Workers: s.workers, Heaps: s.store, ExplainRemoval: s.ledger.ExplainRemoval, MaxHeapLimitBytes: heapMB << 20}),
		Ledger:   s.ledger, Sources: s.sources, Heaps: s.store, Memory: memory{}, Leg: leg,
	})
}

func (s *testServer) last() uint64 {
	s.t.Helper()
	last, err := s.store.LastSeq(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return last
}

func (s *testServer) recorded() (list []*events.HeapMigrated) {
	s.t.Helper()
	all, err := s.store.Read(s.t.Context(), 0, 1<<20)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range all {
		if d, ok := e.Data.(*events.HeapMigrated); ok {
			list = append(list, d)
		}
	}
	return list
}

// chain runs a chain of scripts that count, and returns its heaps.
func (s *testServer) chain(n int) (heaps []string) {
	s.t.Helper()
	heap := ""
	for i := range n {
		heap, _ = s.run(fmt.Sprintf("var n = (globalThis.n ?? 0) + 1; console.log('run', n); if (n !== %d) throw n; n", i+1), heap)
		heaps = append(heaps, heap)
	}
	return heaps
}

// A long lineage is replayed in legs. Interrupted migrations continue, no run is replayed twice,
// and only the heaps at the ends of legs are stored.
func TestLongLineage(t *testing.T) {
	t.Parallel()
	s := newTestServer(t)
	length := tier.Choose(25, 200)
	heaps := s.chain(length)
	request := migration.Request{Tenant: events.DefaultTenant, Heap: heaps[length-1], Actor: tester, RunID: "019ab3c4-6a3e-7c51-8f0e-2b9d54e1a7f3", After: s.last(), Limit: time.Nanosecond}
	unfinished := 0
	var r migration.Result
	for err := runner.ErrMigrationUnfinished; err != nil; unfinished++ {
		if !errors.Is(err, runner.ErrMigrationUnfinished) {
			t.Fatal(err)
		}
		r, err = s.migrator(time.Nanosecond, 0).Migrate(t.Context(), request) // each time as after a restart
		request.After = s.last()
	}
	if unfinished != length || r.Verdict != events.MigrationDone || r.Executions != 1 {
		t.Errorf("%d calls: %+v", unfinished, r)
	}
	if n := s.workers.tasks.Load() - 1; n > int64(length) { // one task reads the engine
		t.Errorf("%d runs are replayed in a lineage of %d", n, length)
	}
	made := s.recorded()
	if len(made) != length {
		t.Fatalf("%d migrations", len(made))
	}
	for i, d := range made {
		if d.Heap != heaps[i] || d.Executions != 1 || d.ExecutionsSHA256 != events.Hash([]byte(d.LastExecutionID+"\n")) || i > 0 && d.From != made[i-1].NewHeap {
			t.Errorf("migration %d: %+v", i, d)
		}
	}
	// Another heap at once, from its ancestor in the middle.
	fork, _ := s.run("n + 0.5", heaps[length/2])
	r, err := s.migrator(time.Hour, 0).Migrate(t.Context(), migration.Request{Tenant: events.DefaultTenant, Heap: fork, Actor: tester, After: s.last()})
	if err != nil || r.Verdict != events.MigrationDone || r.Executions != 1 || r.From != made[length/2].NewHeap {
		t.Errorf("the fork: %+v, %v", r, err)
	}
	// A client that asks again waits for the recorded migration too.
	recorded := r.Seq
	r, err = s.migrator(time.Hour, 0).Migrate(t.Context(), migration.Request{Tenant: events.DefaultTenant, Heap: fork, Actor: tester, After: s.last()})
	if err != nil || !r.IsRecorded || r.Seq != recorded || recorded == 0 {
		t.Errorf("the fork again: %+v, %v, recorded at %d", r, err, recorded)
	}
}

// A migration that ends with its client leaves nothing half done, and the next one starts again.
func TestInterruptedMigration(t *testing.T) {
	t.Parallel()
	s := newTestServer(t)
	heaps := s.chain(4)
	ctx, stop := context.WithCancel(t.Context())
	s.workers.before = func(n int64) error {
		if n == 3 {
			stop()
			return ctx.Err()
		}
		return nil
	}
	m := s.migrator(time.Hour, 0)
	request := migration.Request{Tenant: events.DefaultTenant, Heap: heaps[3], Actor: tester, After: s.last()}
	if r, err := m.Migrate(ctx, request); !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v", r, err)
	}
	if made := s.recorded(); len(made) != 0 {
		t.Errorf("%d migrations", len(made))
	}
	s.workers.before = nil
	if r, err := m.Migrate(t.Context(), request); err != nil || r.Executions != 4 {
		t.Errorf("%+v, %v", r, err)
	}
	if made := s.recorded(); len(made) != 1 || made[0].Executions != 4 {
		t.Errorf("%+v", made)
	}
}

// A request takes over from one whose client disconnected.
func TestMigrationIsTakenOver(t *testing.T) {
	t.Parallel()
	s := newTestServer(t)
	heaps := s.chain(1)
	ctx, stop := context.WithCancel(t.Context())
	m := s.migrator(time.Hour, 0)
	entered, waiting := make(chan struct{}), make(chan struct{})
	request := migration.Request{Tenant: events.DefaultTenant, Heap: heaps[0], Actor: tester, After: s.last()}
	first := request
	first.Enter = func(ctx context.Context) (func(), error) {
		close(entered)
		<-waiting
		stop()
		return nil, ctx.Err()
	}
	var both sync.WaitGroup
	both.Go(func() {
		if _, err := m.Migrate(ctx, first); !errors.Is(err, context.Canceled) {
			t.Errorf("the first request: %v", err)
		}
	})
	<-entered
	both.Go(func() {
		if r, err := m.Migrate(t.Context(), request); err != nil || r.Verdict != events.MigrationDone {
			t.Errorf("the second request: %+v, %v", r, err)
		}
	})
	close(waiting)
	both.Wait()
}

// signalling closes a channel when the metadata of a heap is read with a context that has a
// value.
type signalling struct {
	migration.Heaps
	read func()
}

type signalKey struct{}

func (h signalling) HeapInfo(ctx context.Context, tenant, hash string) (events.HeapInfo, error) {
	info, err := h.Heaps.HeapInfo(ctx, tenant, hash)
	if ctx.Value(signalKey{}) != nil {
		h.read()
	}
	return info, err
}

// A run does not wait for the migration of another request for longer than its share of time,
// and a request of a client does not end with the share of a run or for lack of its place.
func TestMigrationsWaitForEachOther(t *testing.T) {
	t.Parallel()
	s := newTestServer(t)
	heaps := s.chain(2)
	run := migration.Request{Tenant: events.DefaultTenant, Heap: heaps[1], Actor: tester, RunID: "019ab3c4-6a3e-7c51-8f0e-2b9d54e1a7f3", After: s.last(), Limit: time.Nanosecond}
	client := migration.Request{Tenant: events.DefaultTenant, Heap: heaps[1], Actor: tester, After: s.last()}
	m := s.migrator(time.Nanosecond, 0)
	entered, waiting := make(chan struct{}), make(chan struct{})
	busy := client
	busy.Enter = func(context.Context) (func(), error) {
		close(entered)
		<-waiting
		return nil, &ledger.Error{Code: ledger.CodeExhausted, Message: "busy"}
	}
	var all sync.WaitGroup
	all.Go(func() {
		if r, err := m.Migrate(t.Context(), busy); ledger.CodeOf(err) != ledger.CodeExhausted {
			t.Errorf("the client without a place: %+v, %v", r, err)
		}
	})
	<-entered
	if r, err := m.Migrate(t.Context(), run); !errors.Is(err, runner.ErrMigrationUnfinished) {
		t.Errorf("the run that waits: %+v, %v", r, err)
	}
	all.Go(func() {
		longer := run
		longer.Limit = patience
		if r, err := m.Migrate(t.Context(), longer); err != nil || r.Verdict != events.MigrationDone {
			t.Errorf("the run after the client without a place: %+v, %v", r, err)
		}
	})
	close(waiting)
	all.Wait()

	// The run reaches the first heap only, and the client continues.
	heaps = s.chain(2)
	read := make(chan struct{})
	first := true
	s.workers.before = func(int64) error {
		if first {
			first = false
			<-read // the client waits, or is about to
		}
		return nil
	}
	run.Heap, client.Heap, run.After = heaps[1], heaps[1], s.last()
	m = migration.New(migration.Options{
		Replayer: replay.New(replay.Options{Workers: s.workers, Heaps: s.store, ExplainRemoval: s.ledger.ExplainRemoval}),
		Ledger:   s.ledger, Sources: s.sources, Heaps: signalling{s.store, sync.OnceFunc(func() { close(read) })}, Memory: memory{}, Leg: time.Nanosecond,
	})
	all.Go(func() {
		if r, err := m.Migrate(t.Context(), run); err != nil && !errors.Is(err, runner.ErrMigrationUnfinished) {
			t.Errorf("the run: %+v, %v", r, err)
		}
	})
	all.Go(func() {
		if r, err := m.Migrate(context.WithValue(t.Context(), signalKey{}, true), client); err != nil || r.Verdict != events.MigrationDone {
			t.Errorf("the client: %+v, %v", r, err)
		}
	})
	all.Wait()
}

// recordings counts the recordings that are read.
type recordings struct {
	migration.Ledger
	count atomic.Int64
}

func (r *recordings) Recording(ctx context.Context, tenant, execution string) (*ledger.Recording, error) {
	r.count.Add(1)
	return r.Ledger.Recording(ctx, tenant, execution)
}

// A request reads the recordings of a lineage in its place, not before.
func TestLineageIsReadInPlace(t *testing.T) {
	t.Parallel()
	s := newTestServer(t)
	heaps := s.chain(2)
	l := &recordings{Ledger: s.ledger}
	m := migration.New(migration.Options{
		Replayer: replay.New(replay.Options{Workers: s.workers, Heaps: s.store, ExplainRemoval: s.ledger.ExplainRemoval}),
		Ledger:   l, Sources: s.sources, Heaps: s.store, Memory: memory{},
	})
	refused := errors.New("no place")
	_, err := m.Migrate(t.Context(), migration.Request{
		Tenant: events.DefaultTenant, Heap: heaps[1], Actor: tester, After: s.last(), Enter: func(context.Context) (func(), error) { return nil, refused },
	})
	if !errors.Is(err, refused) || l.count.Load() != 0 {
		t.Errorf("%d recordings are read, %v", l.count.Load(), err)
	}
}

// Each way in which a lineage is broken has its reason.
func TestBrokenLineages(t *testing.T) {
	t.Parallel()
	s := newTestServer(t)
	heaps := s.chain(2)
	stranger, err := s.store.PutHeap(t.Context(), events.DefaultTenant, []byte("not of this ledger"), "v8-of-another-ledger")
	if err != nil {
		t.Fatal(err)
	}
	// A run that the present engine gives no end within its memory.
	large, largeID := s.run("if (globalThis.isPresent) for (const list = [];;) list.push(new Array(1000).fill(list)); 1", "")
	for _, c := range []struct {
		name, heap, reason, message string
		heapMB                      int64
	}{
		{"of another ledger", stranger, "lineage_unknown", "the ledger does not have the execution that left heap " + stranger, 0},
		{"limits", heaps[1], "limits", "heap limit", 1},
		{"no memory", large, "out_of_memory", largeID, 0},
	} {
		r, err := s.migrator(time.Hour, c.heapMB).Migrate(t.Context(), migration.Request{Tenant: events.DefaultTenant, Heap: c.heap, Actor: tester, After: s.last()})
		if err != nil || r.Verdict != events.NotMigrated || r.Reason != c.reason || !strings.Contains(r.Why(), c.message) {
			t.Errorf("%s: %+v, %v", c.name, r, err)
		}
		made := s.recorded()
		if d := made[len(made)-1]; d.Heap != c.heap || d.Verdict != events.NotMigrated || d.Reason != c.reason || d.NewHeap != "" {
			t.Errorf("%s: %+v", c.name, d)
		}
	}
	if _, err := s.migrator(time.Hour, 0).Migrate(t.Context(), migration.Request{Tenant: "other", Heap: heaps[0], Actor: tester}); ledger.CodeOf(err) != ledger.CodeNotFound {
		t.Errorf("another tenant: %v", err)
	}
}
