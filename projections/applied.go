package projections

import (
	"context"
	"database/sql"
)

// Reached is the position up to which the file at a path was made of a ledger, or 0
// where there is none that can be relied upon. It is for who asks how far a ledger
// had come that has lost its end.
func Reached(ctx context.Context, path string) uint64 {
	if why, err := checkSum(path); why != "" || err != nil {
		return 0
	}
	version, private, err := fileVersion(ctx, path, false)
	if err != nil || version != SchemaVersion {
		return 0
	}
	params := "mode=ro&_busy_timeout=10000"
	if private {
		params = inMemory + "_busy_timeout=10000"
	}
	db, err := sql.Open("sqlite3", dsn(path, params))
	if err != nil {
		return 0
	}
	defer db.Close()
	var applied uint64
	if db.QueryRowContext(ctx, "SELECT applied FROM position").Scan(&applied) != nil {
		return 0
	}
	return applied
}

// Remove removes the file at a path, if there is one: it is built anew by the next
// Prepare. No Store may have it open.
func Remove(path string) error { return removeFile(path) }
