package projections

import (
	"database/sql"
	"math"
)

// Lists of what came last begin with the newest and go on before a position.

// startOf is the position before which a page begins: that of its cursor, or
// past everything.
func startOf(text string, kind cursorKind) (before uint64, err error) {
	if text == "" {
		return math.MaxInt64, nil
	}
	c, err := parseCursor(text, kind)
	return c.seq, err
}

// readPage reads the rows of a page, of which there may be one more than its limit:
// then there is a next page, and next its cursor. It closes rows.
func readPage[T any](rows *sql.Rows, limit int, kind cursorKind, scan func(row func(...any) error) (one T, seq uint64, err error)) (list []T, next string, err error) {
	defer rows.Close()
	list = []T{}
	var last uint64
	for rows.Next() {
		if len(list) == limit {
			return list, cursor{kind, last}.String(), nil
		}
		one, seq, err := scan(rows.Scan)
		if err != nil {
			return nil, "", err
		}
		list, last = append(list, one), seq
	}
	return list, "", rows.Err()
}
