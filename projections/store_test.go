package projections_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/projections"
)

// patience limits how long a test waits for a condition.
const patience = 2 * time.Minute

func TestWaitMakesEventsReadable(t *testing.T) {
	t.Parallel()
	b, s := newMemoryLedger(), open(t, projections.Options{})
	b.batch = 3
	follow(t, s, b)
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	for n := range 20 {
		changed := s.NextCommit()
		seq := b.add(requested(n))
		if err := s.Wait(ctx, seq); err != nil {
			t.Fatal(err)
		}
		select {
		case <-changed:
		default:
			t.Fatalf("event %d is applied, but no change was signalled", seq)
		}
		if _, err := s.Execution(ctx, tenant, id(n)); err != nil {
			t.Fatalf("read right after the wait for %d: %v", seq, err)
		}
	}
	if n := s.Applied(); n != 20 {
		t.Errorf("applied up to %d, want 20", n)
	}
}

// A watcher of an execution receives signals for that execution only.
func TestWatch(t *testing.T) {
	t.Parallel()
	b, s := newMemoryLedger(), open(t, projections.Options{})
	follow(t, s, b)
	mine, stopMine := s.Watch(tenant, id(0))
	also, stopAlso := s.Watch(tenant, id(0))
	other, stopOther := s.Watch(tenant, id(1))
	foreign, stopForeign := s.Watch("another", id(0))
	defer stopForeign()
	silent := func(what string, c <-chan struct{}) {
		t.Helper()
		select {
		case <-c:
			t.Errorf("%s was signalled", what)
		default:
		}
	}
	add := func(n int) {
		t.Helper()
		if err := s.Wait(t.Context(), b.add(requested(n))); err != nil {
			t.Fatal(err)
		}
	}
	add(0)
	// Neither channel had a signal before, and both have one now: it is sent before
	// Wait returns.
	for _, c := range []<-chan struct{}{mine, also} {
		select {
		case <-c:
		default:
			t.Error("a commit about the execution was not signalled")
		}
	}
	silent("a watcher of another execution", other)
	silent("a watcher of another tenant", foreign)
	stopMine()
	stopMine() // a second call has no effect
	stopAlso()
	add(1)
	silent("a watcher that has stopped", mine)
	select {
	case <-other:
	default:
		t.Error("the last watcher was not signalled")
	}
	stopOther()
}

func TestWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := open(t, projections.Options{})
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := s.Wait(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if err := s.Wait(ctx, 0); err != nil {
		t.Errorf("nothing to wait for, error %v", err)
	}
}

func TestReopenContinues(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a file with ?#%.db")
	b := newMemoryLedger()
	for n := range 3 {
		b.add(requested(n))
		s, err := projections.Open(t.Context(), projections.Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		if s.Applied() != uint64(n) {
			t.Errorf("opened at %d, want %d", s.Applied(), n)
		}
		stop := follow(t, s, b)
		if err := s.Wait(t.Context(), uint64(n+1)); err != nil {
			t.Fatal(err)
		}
		if err := stop(); !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

// feedWithGap omits one position.
type feedWithGap struct{ *memoryLedger }

func (h feedWithGap) Follow(ctx context.Context, after uint64, fn func([]events.Event, uint64) error) error {
	return h.memoryLedger.Follow(ctx, after, func(batch []events.Event, last uint64) error {
		return fn(append(batch[:1:1], batch[2:]...), last)
	})
}

func TestGapIsDamage(t *testing.T) {
	t.Parallel()
	b, s := newMemoryLedger(), open(t, projections.Options{})
	b.add(requested(1))
	apply(t, s, b)
	b.add(requested(2), requested(3), requested(4))
	if s.Damage() != nil {
		t.Fatal("damaged from the beginning")
	}
	waiting := make(chan error, 1)
	go func() { waiting <- s.Wait(context.WithoutCancel(t.Context()), 4) }()
	err := s.Run(t.Context(), feedWithGap{b})
	if !errors.Is(err, events.ErrDamaged) || !strings.Contains(err.Error(), "event 2 is followed by 4") {
		t.Errorf("Run: %v", err)
	}
	if !errors.Is(s.Damage(), events.ErrDamaged) {
		t.Errorf("Damage: %v", s.Damage())
	}
	if err := <-waiting; !errors.Is(err, events.ErrDamaged) {
		t.Errorf("Wait: %v", err)
	}
	if s.Applied() != 1 {
		t.Errorf("applied %d", s.Applied())
	}
	if _, err := s.Execution(t.Context(), tenant, id(2)); !errors.Is(err, events.ErrNotFound) {
		t.Errorf("an event of the refused batch is visible: %v", err)
	}
	if _, err := s.Execution(t.Context(), tenant, id(1)); err != nil {
		t.Errorf("the events before the gap: %v", err)
	}
}

func TestApplyRequiresTheNextPosition(t *testing.T) {
	t.Parallel()
	b, s := newMemoryLedger(), open(t, projections.Options{})
	b.add(requested(1), requested(2))
	apply(t, s, b)
	for _, batch := range [][]events.Event{b.all()[:1], b.all()[1:], {{Seq: 4}}} {
		if err := s.Apply(t.Context(), batch); !errors.Is(err, events.ErrDamaged) {
			t.Errorf("position %d after 2: %v", batch[0].Seq, err)
		}
	}
	if err := s.Apply(t.Context(), nil); err != nil || s.Applied() != 2 {
		t.Errorf("nothing applied: %v, now at %d", err, s.Applied())
	}
}

// TestBatchIsAllOrNothing checks that a batch that ctx interrupts leaves no change.
func TestBatchIsAllOrNothing(t *testing.T) {
	t.Parallel()
	b, s := newMemoryLedger(), open(t, projections.Options{})
	for n := range 100 {
		b.add(requested(n))
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := s.Apply(ctx, b.all()); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	page, err := s.Executions(t.Context(), tenant, projections.ExecutionFilter{})
	if err != nil || len(page.Executions) != 0 || s.Applied() != 0 {
		t.Errorf("%d executions, applied %d, error %v", len(page.Executions), s.Applied(), err)
	}
	apply(t, s, b)
	if s.Applied() != 100 {
		t.Errorf("applied %d", s.Applied())
	}
}

func TestUnknownEventsAreKept(t *testing.T) {
	t.Parallel()
	b := newMemoryLedger()
	path := filepath.Join(t.TempDir(), "projections.db")
	s := open(t, projections.Options{Path: path})
	b.add(
		requested(1),
		&events.Unknown{Type: "daybook.execution.paused.v1", StoredSubject: "ledger.0001.default.exec.x", Concerns: id(1), Body: []byte("not JSON \x00\xff")},
		&events.Unknown{Type: "daybook.execution.completed.v2", StoredSubject: "s", Concerns: id(1)},
	)
	apply(t, s, b)
	unknown := projections.Anomaly{Seq: 2, Kind: projections.AnomalyUnknownType, Tenant: tenant, Type: "daybook.execution.paused.v1", Time: began.Add(time.Second)}
	newer := projections.Anomaly{Seq: 3, Kind: projections.AnomalyUnknownType, Tenant: tenant, Type: "daybook.execution.completed.v2", Time: began.Add(2 * time.Second)}
	a, err := s.Anomalies(t.Context(), tenant, 10)
	if diff := cmp.Diff(projections.Anomalies{UnknownType: 2, Newest: []projections.Anomaly{newer, unknown}}, a); diff != "" || err != nil {
		t.Errorf("%s, error %v", diff, err)
	}
	db := openRaw(t, path)
	var body []byte
	if err := db.QueryRowContext(t.Context(), "SELECT body FROM unknown_events WHERE seq = 2").Scan(&body); err != nil || string(body) != "not JSON \x00\xff" {
		t.Errorf("body %q, error %v", body, err)
	}
	if d, err := s.Execution(t.Context(), tenant, id(1)); err != nil || d.Status != events.StatusRunning {
		t.Errorf("%v, error %v", d.Status, err)
	}
	noAnomalies(t, s)
}

// Anomalies of both kinds are counted for a tenant and for all, and the newest are listed
// with bounded texts.
func TestAnomalies(t *testing.T) {
	t.Parallel()
	b, s := newMemoryLedger(), open(t, projections.Options{})
	b.add(&events.Unknown{Type: "daybook.execution.paused.v1", StoredSubject: "s"}, ended(1, events.StatusFailed))
	b.addFor("acme", ended(2, events.StatusFailed), &events.Unknown{Type: events.Type("daybook." + strings.Repeat("ä", 200)), StoredSubject: "s"},
		&events.SessionEntryRecorded{SessionID: "x", Session: "s", ExecutionID: strings.Repeat("ä", 300)})
	apply(t, s, b)
	for _, tc := range []struct {
		tenant          string
		limit           int
		broken, unknown int64
		positions       []uint64
	}{
		{"", 10, 3, 2, []uint64{5, 4, 3, 2, 1}}, {"", 2, 3, 2, []uint64{5, 4}}, {"", 0, 3, 2, nil},
		{tenant, 10, 1, 1, []uint64{2, 1}}, {"acme", 10, 2, 1, []uint64{5, 4, 3}}, {"acme", 1, 2, 1, []uint64{5}}, {"other", 10, 0, 0, nil},
	} {
		a, err := s.Anomalies(t.Context(), tc.tenant, tc.limit)
		if err != nil {
			t.Fatal(err)
		}
		var positions []uint64
		for _, n := range a.Newest {
			positions = append(positions, n.Seq)
			if len(n.What) > 500 || len(n.Type) > 200 || !utf8.ValidString(n.What+string(n.Type)) {
				t.Errorf("position %d: %q, %q", n.Seq, n.Type, n.What)
			}
			if isKnown := n.Kind == projections.AnomalyRuleBroken; isKnown != (n.What != "") || !n.Time.Equal(began.Add(time.Duration(n.Seq-1)*time.Second)) {
				t.Errorf("%+v", n)
			}
		}
		if a.RuleBroken != tc.broken || a.UnknownType != tc.unknown || !slices.Equal(positions, tc.positions) {
			t.Errorf("tenant %q, limit %d: %d, %d and %v, want %d, %d and %v", tc.tenant, tc.limit, a.RuleBroken, a.UnknownType, positions, tc.broken, tc.unknown, tc.positions)
		}
	}
}

// openRaw opens the file as any SQLite tool would.
func openRaw(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+path+"?mode=rw&_busy_timeout=10000")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func TestAnotherSchemaIsRebuilt(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "projections.db")
	b := newMemoryLedger()
	b.add(requested(1))
	s, err := projections.Open(t.Context(), projections.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	apply(t, s, b)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"PRAGMA user_version = 999", "DROP TABLE executions"} {
		if _, err := openRaw(t, path).ExecContext(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	s = open(t, projections.Options{Path: path})
	if s.Applied() != 0 {
		t.Errorf("applied %d", s.Applied())
	}
	apply(t, s, b)
	if _, err := s.Execution(t.Context(), tenant, id(1)); err != nil {
		t.Error(err)
	}
	var version int
	if err := openRaw(t, path).QueryRowContext(t.Context(), "PRAGMA user_version").Scan(&version); err != nil || version != projections.SchemaVersion {
		t.Errorf("version %d, error %v", version, err)
	}
}

func TestOpenRefusesOtherFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "projections.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("not a database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func() error{
		"Open": func() error {
			_, err := projections.Open(t.Context(), projections.Options{Path: path})
			return err
		},
		"Prepare": func() error {
			_, err := projections.Prepare(t.Context(), projections.Options{Path: path}, newMemoryLedger(), 0)
			return err
		},
	} {
		if err := do(); err == nil || !strings.Contains(err.Error(), "delete the file") || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if kept, err := os.ReadFile(path); err != nil || len(kept) != 1500 {
		t.Errorf("the file was changed: %d bytes, error %v", len(kept), err)
	}
	if _, err := projections.Open(t.Context(), projections.Options{Path: filepath.Join(path, "below")}); err == nil {
		t.Error("opened a file below a file")
	}
}
