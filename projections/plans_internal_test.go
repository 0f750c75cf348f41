package projections

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mattn/go-sqlite3"

	"daybook/events"
)

// recorder opens connections to a file that store each query.
type recorder struct {
	dsn string

	mu   sync.Mutex
	seen map[string]bool
}

func (r *recorder) Driver() driver.Driver { return &sqlite3.SQLiteDriver{} }

func (r *recorder) Connect(context.Context) (driver.Conn, error) {
	c, err := r.Driver().Open(r.dsn)
	if err != nil {
		return nil, err
	}
	return &recordingConn{c.(*sqlite3.SQLiteConn), r}, nil
}

func (r *recorder) note(query string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[query] = true
}

type recordingConn struct {
	*sqlite3.SQLiteConn
	recorder *recorder
}

func (c *recordingConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.recorder.note(query)
	return c.SQLiteConn.QueryContext(ctx, query, args)
}

func (c *recordingConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	c.recorder.note(query)
	return c.SQLiteConn.PrepareContext(ctx, query)
}

// plan returns SQLite's plan for a query.
func plan(t *testing.T, db *sql.DB, query string) (steps []string) {
	t.Helper()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var args []any
	err = conn.Raw(func(c any) error {
		stmt, err := c.(*sqlite3.SQLiteConn).Prepare(query)
		if err != nil {
			return err
		}
		args = make([]any, stmt.NumInput())
		return stmt.Close()
	})
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	rows, err := conn.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, parent, unused int
		var step string
		if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
			t.Fatal(err)
		}
		steps = append(steps, step)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return steps
}

// TestPlans checks that no query or statement reads a complete table, or sorts more
// than a few rows.
func TestPlans(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "projections.db")
	s, err := Open(t.Context(), Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	list := []events.Data{
		&events.ExecutionRequested{ExecutionID: "x"},
		&events.ExecutionStarted{ExecutionID: "x", Attempt: 1, FirstLine: 1},
		&events.ExecutionOutput{ExecutionID: "x", Attempt: 1, FirstLine: 1, Content: events.Plain(events.OutputContent{Lines: []events.Line{{Text: "one"}}})},
	}
	for n := range manyHeaps {
		list = append(list, &events.HeapTagged{Heap: fmt.Sprintf("%064x", n), Content: events.Plain(events.TagContent{Tags: map[string]string{"common": "1"}})})
	}
	var batch []events.Event
	for i, d := range list {
		batch = append(batch, events.Event{Seq: uint64(i + 1), Type: events.TypeOf(d), Tenant: "t", Time: time.UnixMilli(0), Data: d})
	}
	if err := s.Apply(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	r := &recorder{dsn: dsn(path, "_busy_timeout=10000"), seen: map[string]bool{}}
	recorded := sql.OpenDB(r)
	defer recorded.Close()
	conn, err := r.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	applies, err := prepare(t.Context(), conn.(driver.ConnPrepareContext))
	if err != nil {
		t.Fatal(err)
	}
	defer applies.close()
	plain := s.reader
	s.reader = recorded
	askEverything(t, s)
	s.reader = plain

	if len(r.seen) < 60 {
		t.Errorf("only %d queries were seen", len(r.seen))
	}
	// A removal reads complete tables, once in months.
	for _, p := range (&removalStatements{}).queries() {
		delete(r.seen, p.query)
	}
	for _, query := range slices.Sorted(maps.Keys(r.seen)) {
		steps := plan(t, plain, query)
		for _, step := range steps {
			if !isHarmless(step, query) {
				t.Errorf("%s\n\t%s", query, step)
			}
		}
		if filter := regexp.MustCompile(`FROM executions.* (status|session_id|output_heap) (=|IN) `); filter.MatchString(query) && !regexp.MustCompile(`INDEX executions_by_(status|session|heap)`).MatchString(fmt.Sprint(steps)) {
			t.Errorf("%s\n\tfilters without an index:\n\t%s", query, strings.Join(steps, "\n\t"))
		}
	}
}

// isHarmless reports whether the cost of a step is proportional to the result.
func isHarmless(step, query string) bool {
	switch {
	case strings.HasPrefix(step, "SCAN "):
		// One row; the rows of the query itself; list arguments; tables that are empty
		// in an intact ledger.
		return slices.Contains([]string{"SCAN position", "SCAN CONSTANT ROW", "SCAN (subquery-1)", "SCAN line", "SCAN anomalies", "SCAN unknown_events",
			"SCAN anomalies USING COVERING INDEX anomalies_by_tenant", "SCAN unknown_events USING COVERING INDEX unknown_events_by_tenant", "SCAN json_each VIRTUAL TABLE INDEX 1:"}, step)
	case step == "USE TEMP B-TREE FOR group_concat(ORDER BY)": // the short names of one session
		return true
	case strings.Contains(step, "TEMP B-TREE"):
		// The executions of the heaps with a rare tag; the sessions that a text may mean.
		return strings.Contains(query, "INDEXED BY executions_by_heap") || strings.Contains(query, "ORDER BY n.used_seq DESC") && !strings.Contains(query, "n.used_seq < ?3")
	default:
		return true
	}
}

// askEverything runs every query with all parameters that change its SQL.
func askEverything(t *testing.T, s *Store) {
	t.Helper()
	ctx := t.Context()
	ask := func(_ any, err error) {
		t.Helper()
		if err != nil && !errors.Is(err, events.ErrNotFound) {
			t.Error(err)
		}
	}
	for _, status := range []events.Status{"", events.StatusRunning, events.StatusFailed} {
		for _, session := range []string{"", "s"} {
			for _, tags := range []map[string]string{nil, {"a": "1"}, {"a": "1", "common": "1"}, {"common": "1"}} {
				for _, limit := range []int{0, 5} {
					for _, after := range []string{"", cursor{cursorExecutions, 5}.String(), cursor{cursorEnded, 5}.String()} {
						ask(s.Executions(ctx, "t", ExecutionFilter{Status: status, Session: session, Tags: tags, Limit: limit, Cursor: after}))
					}
				}
			}
		}
	}
	for _, f := range []ExecutionFilter{{Details: true}, {Details: true, Limit: 5}, {Since: time.UnixMilli(1), Limit: 5}, {Text: "a", Status: events.StatusFailed}, {Session: "s", Since: time.UnixMilli(1), Text: "a", Details: true}} {
		ask(s.Executions(ctx, "t", f))
	}
	ask(s.ResolveExecution(ctx, "t", "0", ""))
	ask(s.ResolveExecution(ctx, "t", Newest, "s"))
	ask(s.ResolveHeap(ctx, "t", "f", ""))
	ask(s.Anomalies(ctx, "", 5))
	ask(s.Anomalies(ctx, "t", 5))
	ask(s.ResolveHeap(ctx, "t", Newest, ""))
	for pairs := range 4 {
		tags := map[string]string{}
		for n := range pairs {
			tags[fmt.Sprint(n)] = "v"
		}
		ask(s.HeapsByTags(ctx, "t", TagQuery{Tags: tags}))
		ask(s.HeapsByTags(ctx, "t", TagQuery{Tags: tags, Limit: 5, Cursor: tagCursor(strings.Repeat("0", 64))}))
	}
	var first int64
	ask(s.Output(ctx, "t", "x", OutputQuery{}))
	ask(s.Output(ctx, "t", "x", OutputQuery{ByteOffset: &first}))
	_, _, err := s.Lines(ctx, "t", "x", 1, 5)
	ask(nil, err)
	ask(s.Execution(ctx, "t", "x"))
	ask(s.Heap(ctx, "t", "h"))
	ask(s.Heaps(ctx, "t", 5, ""))
	ask(s.Lineage(ctx, "t", "h"))
	ask(s.HeapTags(ctx, "t", "h"))
	ask(s.TagHistory(ctx, "t", "h", 5, ""))
	_, _, err = s.SessionNames(ctx, "t", 5, nameCursor("s"))
	ask(nil, err)
	ask(s.FirstPosition(ctx, "t", "x", "s"))
	ask(s.ResolveSession(ctx, "t", "unknown"))
	for _, kind := range []events.SessionKind{"", events.SessionLog, events.SessionLogical, events.SessionACP} {
		for _, after := range []cursor{{cursorSessions, 5}, {cursorShared, math.MaxInt64}} {
			ask(s.SessionList(ctx, "t", SessionFilter{Kind: kind, Limit: 5, Cursor: after.String()}))
		}
	}
	ask(s.Entries(ctx, "t", "s"))
	ask(s.LogicalSession(ctx, "t", "s"))
	ask(s.LogicalSessions(ctx, "t", 5, ""))
}
