package projections

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// maxDifferences is the number of differences that a Comparison lists.
const maxDifferences = 10

// Comparison is the result of comparing a file with one that was built from the first event, both
// as of the same position.
type Comparison struct {
	// File is the name of the compared file: of the projections, or of a copy.
	File string
	// Position is the position of the last event that is applied in it.
	Position uint64
	// Skipped is why the file was not compared, or empty.
	Skipped string
	// Rows is the number of compared rows, Different the number of those that differ.
	Rows, Different uint64
	// First are the first differences, at most 10.
	First []Difference
}

// Difference is a row that differs.
type Difference struct {
	Table string
	// Row is the key of the row. Its parts are not escaped.
	Row string
	// Columns are the names of the columns that differ. Empty if only one file has the row.
	Columns []string
	// OnlyRebuilt is true if only the rebuilt file has the row, OnlyCompared if only the compared
	// one has it.
	OnlyRebuilt, OnlyCompared bool
}

// RebuildFromStart is Rebuild from the first event. It compares the old file and each copy row by
// row with the rebuilt one, as of the position of each. It replaces the old file also if that
// differs, and then deletes the copies that differ.
func RebuildFromStart(ctx context.Context, opts Options, feed Feed, last uint64) ([]Comparison, error) {
	c := comparer{ctx: ctx, opts: opts, last: last}
	if err := c.collect(); err != nil {
		return nil, fmt.Errorf("compare projections: %w", err)
	}
	newOpts, err := newFile(opts)
	if err == nil {
		err = errors.Join(build(ctx, newOpts, 0, feed, last, c.compareAt), removeFile(c.scratch()))
		if err != nil {
			err = errors.Join(err, removeFile(newOpts.Path))
		}
	}
	if err == nil {
		err = replaceFile(opts.Path, newOpts.Path)
	}
	if err == nil {
		err = removeCopies(opts.CopyDir, func(position uint64) bool {
			return slices.ContainsFunc(c.compared, func(d Comparison) bool {
				return d.Different > 0 && d.Position == position && d.File == filepath.Base(copyPath("", position))
			})
		})
	}
	if err != nil {
		return nil, fmt.Errorf("rebuild projections from the first event: %w", err)
	}
	return c.compared, nil
}

// comparer compares files with one that is built from the first event.
type comparer struct {
	ctx  context.Context //nolint:containedctx // the comparer lives only during one call
	opts Options
	last uint64
	// waiting are the files to compare, in the order of their positions.
	waiting  []comparedFile
	compared []Comparison
}

// comparedFile is a file that waits to be compared.
type comparedFile struct {
	Comparison
	copy *usableCopy // nil for the file of the projections
}

// scratch is the file in which a copy is restored for its comparison.
func (c *comparer) scratch() string { return c.opts.Path + comparedSuffix }

// collect finds the files to compare.
func (c *comparer) collect() error {
	name := filepath.Base(c.opts.Path)
	why, err := verifyChecksum(c.opts.Path)
	switch {
	case err != nil:
		return err
	case why != "":
		c.skip(name, 0, why)
	default:
		position := AppliedIn(c.ctx, c.opts.Path)
		switch {
		case position == 0:
			c.skip(name, 0, "it does not exist, is empty or is of another version")
		case position > c.last:
			c.skip(name, position, "the ledger ends before its position")
		default:
			c.waiting = append(c.waiting, comparedFile{Comparison: Comparison{File: name, Position: position}})
		}
	}
	usable, err := usableCopies(c.ctx, c.opts, c.last)
	if err != nil {
		return err
	}
	positions, err := copyPositions(c.opts.CopyDir)
	if err != nil {
		return err
	}
	for _, position := range positions {
		name := filepath.Base(copyPath("", position))
		if i := slices.IndexFunc(usable, func(u usableCopy) bool { return u.position == position }); i >= 0 {
			c.waiting = append(c.waiting, comparedFile{Comparison{File: name, Position: position}, &usable[i]})
		} else {
			c.skip(name, position, "the ledger does not record its hash for this version, or ends before its position")
		}
	}
	slices.SortStableFunc(c.waiting, func(a, b comparedFile) int { return cmp.Compare(a.Position, b.Position) })
	return nil
}

func (c *comparer) skip(file string, position uint64, why string) {
	c.compared = append(c.compared, Comparison{File: file, Position: position, Skipped: why})
}

// compareAt compares the files whose position the rebuilt one has reached. It returns the next
// position at which a comparison is due.
func (c *comparer) compareAt(s *Store) (next uint64, err error) {
	for len(c.waiting) > 0 && c.waiting[0].Position <= s.Applied() {
		w := c.waiting[0]
		c.waiting = c.waiting[1:]
		if w.Position < s.Applied() {
			c.skip(w.File, w.Position, "the event at its position is removed or lost")
			continue
		}
		if err := c.compare(s, &w); err != nil {
			return 0, fmt.Errorf("compare %s: %w", w.File, err)
		}
		c.compared = append(c.compared, w.Comparison)
	}
	if len(c.waiting) > 0 {
		return c.waiting[0].Position, nil
	}
	return c.last, nil
}

func (c *comparer) compare(s *Store, w *comparedFile) error {
	path, params := c.opts.Path, "mode=ro&_query_only=1&_busy_timeout=10000"
	if w.copy != nil {
		path, params = c.scratch(), "immutable=1&mode=ro"
		if err := removeFile(path); err != nil {
			return err
		}
		if err := restoreCopy(c.ctx, c.opts.CopyDir, *w.copy, path); err != nil {
			w.Skipped = err.Error()
			return c.ctx.Err()
		}
	}
	other, err := sql.Open("sqlite3", dsn(path, params))
	if err != nil {
		return err
	}
	err = compareTables(c.ctx, s.writer, other, &w.Comparison)
	err = errors.Join(err, other.Close())
	if w.copy != nil {
		err = errors.Join(err, removeFile(path))
	}
	return err
}

// rowNames says for each table which columns hold numbers that only count rows, and what replaces
// them in a comparison: removing a volume leaves other numbers than a rebuild gives.
var rowNames = map[string]map[string]string{
	"executions":     {"id": "requested_seq"},
	"output":         {"execution": requestOfRow},
	"calls":          {"execution": requestOfRow},
	"artifacts":      {"execution": requestOfRow},
	"replays":        {"execution": requestOfRow},
	"sealed_runs":    {"execution": requestOfRow},
	"agent_sessions": {"id": "created_seq"},
	"agent_prompts":  {"session": "(SELECT s.created_seq FROM agent_sessions s WHERE s.id = t.session)"},
}

const requestOfRow = "(SELECT x.requested_seq FROM executions x WHERE x.id = t.execution)"

// rowConditions leave out rows that mean the same as no row.
var rowConditions = map[string]string{
	"tenant_usage": " WHERE (runs, output_bytes, heap_bytes, sessions, contexts, tagged_heaps, short_names) <> (0, 0, 0, 0, 0, 0, 0)",
}

// compareTables compares all tables of two files and adds the result to c.
func compareTables(ctx context.Context, rebuilt, compared *sql.DB, c *Comparison) error {
	names, err := readTexts(ctx, rebuilt, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name")
	if err != nil {
		return err
	}
	for _, table := range names {
		if err := compareTable(ctx, rebuilt, compared, table, c); err != nil {
			return fmt.Errorf("table %s: %w", table, err)
		}
	}
	return nil
}

// compareTable reads the rows of two tables in the order of their keys, and compares them.
func compareTable(ctx context.Context, rebuilt, compared *sql.DB, table string, c *Comparison) error {
	columns, err := readTexts(ctx, rebuilt, "SELECT name FROM pragma_table_info(?) ORDER BY cid", table)
	if err != nil {
		return err
	}
	keys, err := readTexts(ctx, rebuilt, "SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", table)
	if err != nil {
		return err
	}
	if len(keys) == 0 {
		return errors.New("it has no primary key")
	}
	selected := slices.Clone(columns)
	for i, column := range columns {
		if name := rowNames[table][column]; name != "" {
			selected[i] = name
		} else {
			selected[i] = "t." + column
		}
	}
	var order []int
	for i := range keys {
		order = append(order, slices.Index(columns, keys[i]))
		keys[i] = "t." + keys[i]
	}
	query := "SELECT " + strings.Join(selected, ", ") + " FROM " + table + " t" + rowConditions[table] + " ORDER BY " + strings.Join(keys, ", ")
	a, err := readRows(ctx, rebuilt, query, len(columns))
	if err != nil {
		return err
	}
	defer a.rows.Close()
	b, err := readRows(ctx, compared, query, len(columns))
	if err != nil {
		return err
	}
	defer b.rows.Close()
	for a.next() && b.next() && (a.has || b.has) {
		c.Rows++
		way := 0
		switch {
		case !b.has:
			way = -1
		case !a.has:
			way = 1
		default:
			for _, k := range order {
				if way = compareValues(a.values[k], b.values[k]); way != 0 {
					break
				}
			}
		}
		d := Difference{Table: table, OnlyRebuilt: way < 0, OnlyCompared: way > 0}
		shown := a
		if way > 0 {
			shown = b
		}
		if way == 0 {
			for i := range columns {
				if compareValues(a.values[i], b.values[i]) != 0 {
					d.Columns = append(d.Columns, columns[i])
				}
			}
		}
		if way != 0 || len(d.Columns) > 0 {
			c.Different++
			if len(c.First) < maxDifferences {
				d.Row = shown.key(order)
				c.First = append(c.First, d)
			}
		}
		a.has, b.has = a.has && way > 0, b.has && way < 0 // a row that is left is compared with the next one
	}
	return cmp.Or(a.err, b.err, a.rows.Err(), b.rows.Err())
}

// tableReader reads rows one after the other.
type tableReader struct {
	rows   *sql.Rows
	values []any
	into   []any
	// has is true while values hold a row that was not compared.
	has bool
	err error
}

func readRows(ctx context.Context, db *sql.DB, query string, columns int) (*tableReader, error) {
	rows, err := db.QueryContext(ctx, query) //nolint:rowserrcheck // compareTable reads the rows and checks it
	if err != nil {
		return nil, err
	}
	r := &tableReader{rows: rows, values: make([]any, columns), into: make([]any, columns)}
	for i := range r.values {
		r.into[i] = &r.values[i]
	}
	return r, nil
}

// next reads a row unless there is one, or none is left. It returns false after an error.
func (r *tableReader) next() bool {
	if !r.has && r.rows.Next() {
		r.err = r.rows.Scan(r.into...)
		r.has = r.err == nil
	}
	return r.err == nil
}

// key returns the key of the row as text.
func (r *tableReader) key(order []int) string {
	var parts []string
	for _, i := range order {
		if b, ok := r.values[i].([]byte); ok {
			parts = append(parts, fmt.Sprintf("%x", b))
		} else {
			parts = append(parts, fmt.Sprint(r.values[i]))
		}
	}
	return strings.Join(parts, " ")
}

// compareValues compares values as SQLite orders those of a key.
func compareValues(a, b any) int {
	switch a := a.(type) {
	case int64:
		if b, ok := b.(int64); ok {
			return cmp.Compare(a, b)
		}
	case float64:
		if b, ok := b.(float64); ok {
			return cmp.Compare(a, b)
		}
	case string:
		if b, ok := b.(string); ok {
			return strings.Compare(a, b)
		}
	case []byte:
		if b, ok := b.([]byte); ok {
			return bytes.Compare(a, b)
		}
	}
	return cmp.Compare(rankOf(a), rankOf(b))
}

// rankOf returns the place of a value's type in the order of SQLite.
func rankOf(v any) int {
	switch v.(type) {
	case nil:
		return 0
	case int64:
		return 1
	case float64:
		return 2
	case string:
		return 3
	default:
		return 4
	}
}

// readTexts returns the only column of a query.
func readTexts(ctx context.Context, db *sql.DB, query string, args ...any) (list []string, err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		list = append(list, text)
	}
	return list, rows.Err()
}
