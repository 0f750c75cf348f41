package projections_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/internal/dev/tier"
	"daybook/projections"
)

// historian generates events of many executions in disorder: retries, late and repeated
// output, repeated ends, tags, sessions, unknown types, and events that break every
// rule.
type historian struct {
	*rand.Rand
	lives   map[int]*life
	entries map[string]int64
}

func newHistorian(seed uint64) *historian {
	return &historian{rand.New(rand.NewPCG(seed, 2)), map[int]*life{}, map[string]int64{}}
}

// move returns the next event and its tenant.
func (h *historian) move() (string, events.Data) {
	who := []string{tenant, tenant, tenant, "another"}[h.IntN(4)]
	n := 1 + h.IntN(12)
	status := []events.Status{events.StatusCompleted, events.StatusCompleted, events.StatusFailed, events.StatusTimedOut, events.StatusCancelled}[h.IntN(5)]
	given := tags{"k": fmt.Sprint(h.IntN(3)), "l": fmt.Sprint(h.IntN(2))}
	if h.IntN(4) == 0 {
		given = tags{}
	}
	switch h.IntN(20) {
	case 0, 1, 2, 3:
		session := fmt.Sprint("session ", h.IntN(3))
		return who, requested(n, inSession(session), func(d *events.ExecutionRequested) {
			if h.IntN(2) == 0 {
				d.Content.Plain.Tags = given
			}
		})
	case 4:
		return who, ended(n, status, leaving(heap(h.IntN(9)), heap(h.IntN(9))))
	case 5:
		return who, tagged(heap(h.IntN(9)), given, events.EditSet, uint64(h.IntN(50)))
	case 6:
		session := fmt.Sprint("session ", h.IntN(3))
		d := entry(n, session, h.entries[who+session], status, "", heap(h.IntN(9)))
		h.entries[who+session] += int64(h.IntN(2))
		return who, d
	case 7:
		return who, &events.Unknown{Type: "daybook.execution.paused.v1", StoredSubject: "s", Concerns: id(n), Body: []byte("{}")}
	case 8:
		return who, &events.ExecutionHandedBack{ExecutionID: id(n), Attempt: 1 + h.IntN(3)}
	case 9:
		return who, &events.HeapCollected{Heap: heap(h.IntN(9))}
	case 10, 11:
		return who, logicalMove(h.Rand)
	default:
		l := h.lives[n]
		if l == nil {
			l = &life{rnd: h.Rand, plan: fresh}
			h.lives[n] = l
		}
		d := l.next()
		rename(d, id(n))
		return who, d
	}
}

// rename changes the execution of an event from 1 to another.
func rename(d events.Data, id string) {
	switch d := d.(type) {
	case *events.ExecutionStarted:
		d.ExecutionID = id
	case *events.ExecutionOutput:
		d.ExecutionID = id
	case *events.ExecutionCancelRequested:
		d.ExecutionID = id
	default:
		events.EndingOf(d).ExecutionID = id
	}
}

// dump reads every table of a file, with rows in the order of their keys.
func dump(t testing.TB, path string) map[string][]string {
	t.Helper()
	db := openRaw(t, path)
	tables := map[string][]string{}
	names, err := db.QueryContext(t.Context(), "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
	if err != nil {
		t.Fatal(err)
	}
	for names.Next() {
		var name string
		if err := names.Scan(&name); err != nil {
			t.Fatal(err)
		}
		tables[name] = nil
	}
	names.Close()
	for name := range tables {
		tables[name] = dumpTable(t, db, name)
	}
	return tables
}

func dumpTable(t testing.TB, db *sql.DB, name string) (list []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT * FROM "+name)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		values := make([]any, len(columns))
		for i := range values {
			values[i] = new(any)
		}
		if err := rows.Scan(values...); err != nil {
			t.Fatal(err)
		}
		row := ""
		for i, v := range values {
			row += fmt.Sprintf("%s=%#v ", columns[i], *v.(*any))
		}
		list = append(list, row)
	}
	slices.Sort(list)
	return list
}

// rebuildFrom folds a memoryLedger from scratch and returns the file.
func rebuildFrom(t testing.TB, b *memoryLedger) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rebuilt.db")
	if _, err := projections.Rebuild(t.Context(), projections.Options{Path: path}, b, uint64(len(b.all()))); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRebuiltIsTheSame checks that events applied one by one, in batches, with several
// openings of the file, or in one rebuild give the same tables.
func TestRebuiltIsTheSame(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			h, b := newHistorian(seed), newMemoryLedger()
			path := filepath.Join(t.TempDir(), "projections.db")
			s := open(t, projections.Options{Path: path})
			for range tier.Choose(5, 20) {
				for range 1 + h.IntN(tier.Choose(120, 30)) {
					who, d := h.move()
					b.addFor(who, d)
				}
				for s.Applied() < uint64(len(b.all())) {
					rest := b.all()[s.Applied():]
					if err := s.Apply(t.Context(), rest[:1+h.IntN(len(rest))]); err != nil {
						t.Fatal(err)
					}
				}
				if h.IntN(4) == 0 {
					s = open(t, projections.Options{Path: path}) // a second store on the same file
				}
				again := rebuildFrom(t, b)
				want := dump(t, again)
				if diff := cmp.Diff(want, dump(t, path)); diff != "" {
					t.Fatalf("after %d events: %s", len(b.all()), diff)
				}
				if len(want["executions"]) == 0 && len(b.all()) > 100 {
					t.Fatalf("a history of %d events without executions", len(b.all()))
				}
				sameAnswers(t, s, open(t, projections.Options{Path: again}))
			}
		})
	}
}

// sameAnswers compares the results of every query of two stores.
func sameAnswers(t *testing.T, a, b *projections.Store) {
	t.Helper()
	for _, who := range []string{tenant, "another"} {
		if diff := cmp.Diff(answers(t, a, who), answers(t, b, who)); diff != "" {
			t.Fatal(diff)
		}
	}
}

// answers runs every query for a tenant.
func answers(t *testing.T, s *projections.Store, who string) (list []any) {
	t.Helper()
	add := func(v any, err error) {
		if err != nil && !errors.Is(err, events.ErrNotFound) && !errors.Is(err, events.ErrRemoved) {
			t.Error(err)
		}
		list = append(list, v, fmt.Sprint(err))
	}
	for n := range 3 {
		d, err := s.LogicalSession(t.Context(), who, sessionID(n))
		add(d, err)
	}
	for n := 1; n <= 12; n++ {
		d, err := s.Execution(t.Context(), who, id(n))
		add(d, err)
		p, err := s.Output(t.Context(), who, id(n), projections.OutputQuery{ByteOffset: ptr(int64(0)), ByteLimit: 1 << 20})
		add(p, err)
		lines, status, err := s.Lines(t.Context(), who, id(n), 1, 1000)
		add(lines, err)
		add(status, nil)
	}
	for n := range 9 {
		h, err := s.Heap(t.Context(), who, heap(n))
		add(h, err)
		line, err := s.Lineage(t.Context(), who, heap(n))
		add(line, err)
		given, err := s.HeapTags(t.Context(), who, heap(n))
		add(given, err)
		history, err := s.TagHistory(t.Context(), who, heap(n), 1000, "")
		add(history, err)
	}
	for _, limit := range []int{3, 1000} {
		p, err := s.Heaps(t.Context(), who, limit, "")
		add(p, err)
	}
	for _, q := range []tags{nil, {"k": "0"}, {"k": "1", "l": "0"}} {
		found, err := s.HeapsByTags(t.Context(), who, projections.TagQuery{Tags: q})
		add(found, err)
		for _, f := range []projections.ExecutionFilter{{Tags: q}, {Tags: q, Limit: 2}, {Tags: q, Session: "session 1"}, {Tags: q, Status: events.StatusCompleted}} {
			p, err := s.Executions(t.Context(), who, f)
			add(p, err)
		}
	}
	names, _, err := s.SessionNames(t.Context(), who, 0, "")
	add(names, err)
	for n := range 3 {
		entries, err := s.Entries(t.Context(), who, fmt.Sprint("session ", n))
		add(entries, err)
	}
	return list
}

// TestPrepare checks that a missing file and a file of another schema version are
// rebuilt, and that an intact one is left alone.
func TestPrepare(t *testing.T) {
	t.Parallel()
	b := newMemoryLedger()
	b.add(requested(1), requested(2), requested(3))
	opts := projections.Options{Path: filepath.Join(t.TempDir(), "projections.db")}
	prepare := func(last uint64) bool {
		built, err := projections.Prepare(t.Context(), opts, b, last)
		if err != nil {
			t.Fatal(err)
		}
		return built
	}
	applied := func() uint64 {
		s, err := projections.Open(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		return s.Applied()
	}
	// Files that an interrupted rebuild may leave.
	for _, suffix := range []string{".new", ".new-wal", "-wal", "-shm"} {
		if err := os.WriteFile(opts.Path+suffix, []byte("left over"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if built := prepare(2); !built || applied() != 2 {
		t.Errorf("missing file: built %v, applied %d", built, applied())
	}
	if built := prepare(3); built || applied() != 2 {
		t.Errorf("good file: built %v, applied %d", built, applied())
	}
	if _, err := openRaw(t, opts.Path).ExecContext(t.Context(), "PRAGMA user_version = 1"); err != nil {
		t.Fatal(err)
	}
	if built := prepare(3); !built || applied() != 3 {
		t.Errorf("older file: built %v, applied %d", built, applied())
	}
	if err := os.Remove(opts.Path); err != nil {
		t.Fatal(err)
	}
	if built := prepare(0); !built || applied() != 0 {
		t.Errorf("empty ledger: built %v, applied %d", built, applied())
	}
}

// endingFeed is a feed that ends too early.
type endingFeed struct{ *memoryLedger }

func (f endingFeed) Follow(_ context.Context, _ uint64, fn func([]events.Event, uint64) error) error {
	return fn(f.all()[:1], 1)
}

// TestFailedRebuildKeepsTheOldFile makes a rebuild fail for each possible reason.
func TestFailedRebuildKeepsTheOldFile(t *testing.T) {
	t.Parallel()
	b := newMemoryLedger()
	b.add(requested(1), requested(2), requested(3), requested(4))
	dir := t.TempDir()
	opts := projections.Options{Path: filepath.Join(dir, "projections.db")}
	if _, err := projections.Rebuild(t.Context(), opts, b, 4); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(opts.Path)
	if err != nil {
		t.Fatal(err)
	}
	gone, stop := context.WithCancel(t.Context())
	stop()
	for name, tt := range map[string]struct {
		ctx  context.Context
		feed projections.Feed
		want error
	}{
		"a hole":       {t.Context(), feedWithGap{b}, events.ErrDamaged},
		"no more time": {gone, b, context.Canceled},
		"a short feed": {t.Context(), endingFeed{b}, nil},
	} {
		_, err := projections.Rebuild(tt.ctx, opts, tt.feed, 4)
		if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
			t.Errorf("%s: error %v", name, err)
		}
		if after, err := os.ReadFile(opts.Path); err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s: the file of %d bytes has %d now, error %v", name, len(before), len(after), err)
		}
		left, err := filepath.Glob(filepath.Join(dir, "*.new*"))
		if err != nil || len(left) > 0 {
			t.Errorf("%s: left %v, error %v", name, left, err)
		}
	}
}

// A rebuilt file has the tables, indexes and journal mode of one that Open created.
func TestRebuiltHasEveryIndex(t *testing.T) {
	t.Parallel()
	b := newMemoryLedger()
	b.add(requested(1), started(1, 1, fresh, ""), ended(1, events.StatusCompleted))
	created := filepath.Join(t.TempDir(), "created.db")
	apply(t, open(t, projections.Options{Path: created}), b)
	if diff := cmp.Diff(layout(t, created), layout(t, rebuildFrom(t, b))); diff != "" {
		t.Error(diff)
	}
}

func layout(t *testing.T, path string) (list []string) {
	t.Helper()
	db := openRaw(t, path)
	rows, err := db.QueryContext(t.Context(), "SELECT name || ': ' || coalesce(sql, '') FROM sqlite_schema UNION ALL SELECT 'journal mode ' || journal_mode FROM pragma_journal_mode ORDER BY 1")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var entry string
		if err := rows.Scan(&entry); err != nil {
			t.Fatal(err)
		}
		list = append(list, entry)
	}
	if err := rows.Err(); err != nil || len(list) < 40 {
		t.Fatal(len(list), err)
	}
	return list
}
