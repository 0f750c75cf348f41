package projections_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3"

	"daybook/events"
	"daybook/projections"
)

// smallRuns returns n events of stateless runs: requested, started, one line of output and
// completed.
func smallRuns(n int) *memoryLedger {
	b := newMemoryLedger()
	list := make([]events.Data, 0, n+4)
	for i := 1; len(list) < n; i++ {
		line := events.Line{Text: fmt.Sprintf("execution %d", i), TimeMillis: began.UnixMilli()}
		end := func(e *events.Ending) {
			e.Usage = &events.Usage{CPUMillis: 1, WallMillis: 2, PeakHeapBytes: 1 << 20}
			e.Content = events.Plain(events.EndingContent{Result: &events.Body{Text: fmt.Sprint(i)}})
			e.Output = &events.OutputTotals{Lines: 1, Bytes: line.Bytes(), SHA256: heap(i)}
		}
		list = append(list, requested(i, func(d *events.ExecutionRequested) { d.Stateful = false }), started(i, 1, fresh, ""), output(i, 1, fresh, line), ended(i, events.StatusCompleted, end))
	}
	b.add(list...)
	return b
}

// BenchmarkRebuild prints events/s and CPU time per event. "floor" inserts the rows of the
// rebuilt file, with the same tables and indexes, in one transaction.
func BenchmarkRebuild(b *testing.B) {
	const size = 100_000
	ledgers := []struct {
		name string
		feed *memoryLedger
	}{{"small runs", smallRuns(size)}}
	for _, shape := range shapes {
		ledgers = append(ledgers, struct {
			name string
			feed *memoryLedger
		}{shape.name, mix(size, shape.chunks, shape.lines)})
	}
	for _, l := range ledgers {
		last := uint64(len(l.feed.all()))
		rebuilt := filepath.Join(b.TempDir(), "rebuilt.db")
		b.Run(l.name+"/rebuild", func(b *testing.B) {
			perEvent(b, last, func() error {
				_, err := projections.Rebuild(b.Context(), projections.Options{Path: rebuilt}, l.feed, last)
				return err
			})
		})
		b.Run(l.name+"/floor", func(b *testing.B) {
			tables := readTables(b, rebuilt)
			perEvent(b, last, func() error { return insertAll(b.Context(), filepath.Join(b.TempDir(), "floor.db"), tables) })
		})
	}
}

// perEvent runs a function that processes the events up to last.
func perEvent(b *testing.B, last uint64, run func() error) {
	b.Helper()
	var before, after syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
	for b.Loop() {
		if err := run(); err != nil {
			b.Fatal(err)
		}
	}
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
	cpu := time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
	events := float64(last) * float64(b.N)
	b.ReportMetric(events/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(cpu.Nanoseconds())/events/1000, "cpu-µs/event")
}

// tableRows is a table of a file with the statements that create it.
type tableRows struct {
	name    string
	create  []string
	columns int
	rows    [][]any
}

func readTables(b *testing.B, path string) (list []tableRows) {
	b.Helper()
	if _, err := os.Stat(path); err != nil {
		b.Skip("needs the file of the rebuild")
	}
	db := openRaw(b, path)
	definitions, err := db.QueryContext(b.Context(), "SELECT tbl_name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY tbl_name, type DESC")
	if err != nil {
		b.Fatal(err)
	}
	defer definitions.Close()
	for definitions.Next() {
		var name, create string
		if err := definitions.Scan(&name, &create); err != nil {
			b.Fatal(err)
		}
		if n := len(list); n == 0 || list[n-1].name != name {
			list = append(list, tableRows{name: name})
		}
		list[len(list)-1].create = append(list[len(list)-1].create, create)
	}
	for i := range list {
		rows, err := db.QueryContext(b.Context(), "SELECT * FROM "+list[i].name)
		if err != nil {
			b.Fatal(err)
		}
		columns, _ := rows.Columns()
		list[i].columns = len(columns)
		for rows.Next() {
			values, into := make([]any, len(columns)), make([]any, len(columns))
			for j := range values {
				into[j] = &values[j]
			}
			if err := rows.Scan(into...); err != nil {
				b.Fatal(err)
			}
			list[i].rows = append(list[i].rows, values)
		}
		rows.Close()
	}
	return list
}

func insertAll(ctx context.Context, path string, tables []tableRows) error {
	db, err := sql.Open("sqlite3", "file:"+path+"?_journal_mode=OFF&_synchronous=OFF&_cache_size=-64000")
	if err != nil {
		return err
	}
	defer db.Close()
	tx, err := db.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	ctx = context.WithoutCancel(ctx)
	for _, t := range tables {
		for _, create := range t.create {
			if _, err := tx.ExecContext(ctx, create); err != nil {
				return fmt.Errorf("%s: %w", create, err)
			}
		}
		stmt, err := tx.PrepareContext(ctx, fmt.Sprintf("INSERT INTO %s VALUES (%s)", t.name, strings.TrimSuffix(strings.Repeat("?,", t.columns), ",")))
		if err != nil {
			return err
		}
		for _, row := range t.rows {
			if _, err := stmt.ExecContext(ctx, row...); err != nil {
				return err
			}
		}
		stmt.Close()
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	return os.Remove(path)
}
