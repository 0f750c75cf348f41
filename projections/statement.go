package projections

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"reflect"
)

// statement is a prepared statement of the writer's connection. It is used without
// database/sql, whose work for each use took a third of the time of applying. It MUST be
// used within conn.Raw of that connection, by one goroutine.
type statement struct {
	stmt driverStatement
	args []driver.NamedValue // reused by each use
}

// driverStatement is what a statement needs of the driver.
type driverStatement interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// writerConn is what applying needs of the driver's connection.
type writerConn interface {
	driver.ConnBeginTx
	driver.ConnPrepareContext
}

func prepareStatement(ctx context.Context, c driver.ConnPrepareContext, query string) (*statement, error) {
	stmt, err := c.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	usable, ok := stmt.(driverStatement)
	if !ok {
		return nil, errors.Join(fmt.Errorf("the driver has no contexts for %T", stmt), stmt.Close())
	}
	return &statement{stmt: usable, args: make([]driver.NamedValue, 0, max(stmt.NumInput(), 0))}, nil
}

// exec runs the statement. It returns the number of rows changed.
func (s *statement) exec(ctx context.Context, args []any) (int64, error) {
	if err := s.convert(args); err != nil {
		return 0, err
	}
	res, err := s.stmt.ExecContext(ctx, s.args)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// query runs the statement and returns its rows. The caller MUST close them before the
// next use of the statement.
func (s *statement) query(ctx context.Context, args []any) (*rowReader, error) {
	if err := s.convert(args); err != nil {
		return nil, err
	}
	rows, err := s.stmt.QueryContext(ctx, s.args)
	if err != nil {
		return nil, err
	}
	return &rowReader{rows: rows, values: make([]driver.Value, len(rows.Columns()))}, nil
}

// convert sets the arguments of the next use.
func (s *statement) convert(args []any) error {
	if want := s.stmt.NumInput(); want != len(args) {
		return fmt.Errorf("a statement with %d parameters has %d arguments", want, len(args))
	}
	s.args = s.args[:0]
	for i, v := range args {
		switch n := v.(type) {
		case nil, int64, float64, bool, string, []byte:
		case int:
			v = int64(n)
		case uint64: // a position
			v = int64(n)
		default:
			var err error
			if v, err = driver.DefaultParameterConverter.ConvertValue(v); err != nil {
				return fmt.Errorf("argument %d: %w", i+1, err)
			}
		}
		s.args = append(s.args, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	return nil
}

// rowReader reads the rows of a query. Its methods are those of sql.Rows.
type rowReader struct {
	rows   driver.Rows
	values []driver.Value
	err    error
}

func (r *rowReader) Next() bool {
	if r.err == nil {
		r.err = r.rows.Next(r.values)
	}
	return r.err == nil
}

func (r *rowReader) Scan(dest ...any) error {
	if len(dest) != len(r.values) {
		return fmt.Errorf("a row of %d columns is read into %d", len(r.values), len(dest))
	}
	for i, v := range r.values {
		if err := assign(dest[i], v); err != nil {
			return fmt.Errorf("column %d: %w", i+1, err)
		}
	}
	return nil
}

func (r *rowReader) Err() error {
	if errors.Is(r.err, io.EOF) {
		return nil
	}
	return r.err
}

func (r *rowReader) Close() error { return r.rows.Close() }

// firstRow is the only row of a query, or its error.
type firstRow struct {
	*rowReader
	err error
}

// Scan reads the row and closes it. It returns sql.ErrNoRows if there is none.
func (r firstRow) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	if !r.Next() {
		err := r.Err()
		if err == nil {
			err = sql.ErrNoRows
		}
		return errors.Join(err, r.Close())
	}
	return errors.Join(r.rowReader.Scan(dest...), r.Close())
}

// assign stores a column in the variable that dest points to.
func assign(dest any, v driver.Value) error {
	if s, ok := dest.(sql.Scanner); ok {
		return s.Scan(v)
	}
	into := reflect.ValueOf(dest).Elem()
	switch v := v.(type) {
	case int64:
		switch {
		case into.CanInt() && !into.OverflowInt(v):
			into.SetInt(v)
			return nil
		case into.CanUint() && v >= 0 && !into.OverflowUint(uint64(v)):
			into.SetUint(uint64(v))
			return nil
		case into.Kind() == reflect.Bool && (v == 0 || v == 1):
			into.SetBool(v == 1)
			return nil
		}
	case string:
		if into.Kind() == reflect.String {
			into.SetString(v)
			return nil
		}
	case []byte:
		if into.Kind() == reflect.Slice {
			into.SetBytes(v)
			return nil
		}
	}
	return fmt.Errorf("%T cannot be read into %T", v, dest)
}
