package projections

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mattn/go-sqlite3"

	"daybook/events"
)

// rowCounter opens connections that count the rows that queries return.
type rowCounter struct {
	dsn  string
	rows atomic.Int64
}

func (r *rowCounter) Driver() driver.Driver { return &sqlite3.SQLiteDriver{} }

func (r *rowCounter) Connect(context.Context) (driver.Conn, error) {
	c, err := r.Driver().Open(r.dsn)
	if err != nil {
		return nil, err
	}
	return &countingConn{c.(*sqlite3.SQLiteConn), r}, nil
}

type countingConn struct {
	*sqlite3.SQLiteConn
	counter *rowCounter
}

func (c *countingConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.SQLiteConn.QueryContext(ctx, query, args)
	return countedRows{rows, c.counter}, err
}

type countedRows struct {
	driver.Rows
	counter *rowCounter
}

func (r countedRows) Next(dest []driver.Value) error {
	err := r.Rows.Next(dest)
	if err == nil {
		r.counter.rows.Add(1)
	}
	return err
}

// A page of sessions reads as many rows in a ledger of any age; TestPlans checks that it sorts
// none. The pages have each session once, the last used first.
func TestSessionPagesDoNotGrow(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "projections.db")
	s, err := Open(t.Context(), Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	counter := &rowCounter{dsn: dsn(path, "_busy_timeout=10000")}
	plain := s.reader
	s.reader = sql.OpenDB(counter)
	defer func() { s.reader.Close(); s.reader = plain }()
	const limit = 5
	var last uint64
	fill := func(n int) {
		t.Helper()
		var batch []events.Event
		add := func(d events.Data) {
			last++
			batch = append(batch, events.Event{Seq: last, Type: events.TypeOf(d), Tenant: "t", Time: time.UnixMilli(0), Data: d})
		}
		for range n {
			name := fmt.Sprint("session ", last)
			id, named, logical, agent := fmt.Sprint("x", last), events.SessionID("t", name), events.NewSessionID(), events.NewSessionID()
			add(&events.ExecutionRequested{ExecutionID: id, Session: name, SessionID: named})
			add(&events.ExecutionCompleted{Ending: events.Ending{ExecutionID: id}})
			add(&events.SessionEntryRecorded{Session: name, SessionID: named, ExecutionID: id, Status: events.StatusCompleted})
			add(&events.SessionOpened{SessionID: logical, Kind: events.SessionLogical})
			for _, acp := range []string{agent, events.NewSessionID()} {
				add(&events.SessionOpened{SessionID: acp, Kind: events.SessionACP})
				add(&events.AgentSessionCreated{SessionID: acp, Content: events.Plain(events.AgentWorkspace{})})
				if acp != agent {
					add(&events.AgentSessionDeleted{SessionID: acp})
				}
			}
		}
		if err := s.Apply(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	pages := func(kind events.SessionKind) (sessions int, rows int64) {
		t.Helper()
		seen, after := map[string]bool{}, ""
		for {
			before := counter.rows.Load()
			page, err := s.SessionList(t.Context(), "t", SessionFilter{Kind: kind, Limit: limit, Cursor: after})
			if err != nil {
				t.Fatal(err)
			}
			rows = max(rows, counter.rows.Load()-before)
			for _, one := range page.Items {
				if seen[one.SessionID] {
					t.Fatalf("%s is listed twice", one.SessionID)
				}
				seen[one.SessionID] = true
			}
			if after = page.NextCursor; after == "" {
				return len(seen), rows
			}
		}
	}
	names := func() (n int, rows int64) {
		t.Helper()
		for after := ""; ; {
			before := counter.rows.Load()
			list, next, err := s.SessionNames(t.Context(), "t", limit, after)
			if err != nil {
				t.Fatal(err)
			}
			n, rows = n+len(list), max(rows, counter.rows.Load()-before)
			if after = next; after == "" {
				return n, rows
			}
		}
	}
	for _, n := range []int{20, 180} {
		fill(n)
		total := 20
		if n != 20 {
			total += n
		}
		for kind, kinds := range map[events.SessionKind]int{"": 3, events.SessionLog: 1, events.SessionLogical: 1, events.SessionACP: 1} {
			if sessions, rows := pages(kind); sessions != total*kinds || rows > int64(kinds*(limit+1)) {
				t.Errorf("kind %q: %d sessions of %d, %d rows for a page", kind, sessions, total*kinds, rows)
			}
		}
		if found, rows := names(); found != total || rows > limit+1 {
			t.Errorf("%d names of %d, %d rows for a page", found, total, rows)
		}
		before := counter.rows.Load()
		if one, err := s.ResolveSession(t.Context(), "t", "session 0"); err != nil || counter.rows.Load()-before != 1 {
			t.Errorf("%+v, %v, %d rows", one, err, counter.rows.Load()-before)
		}
	}
}
