package projections

import (
	"context"
	"database/sql"
)

// AppliedIn returns the position of the last event that is applied in the file at path,
// or 0 if the file is missing, not intact or of another schema version. It is a lower
// bound for the length of a ledger that has lost its end.
func AppliedIn(ctx context.Context, path string) uint64 {
	if why, err := verifyChecksum(path); why != "" || err != nil {
		return 0
	}
	version, private, err := fileVersion(ctx, path, false)
	if err != nil || version != SchemaVersion {
		return 0
	}
	params := "mode=ro&_busy_timeout=10000"
	if private {
		params = memoryIndexVFS + "_busy_timeout=10000"
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

// Remove removes the file at path, if it exists; the next Prepare rebuilds it. No Store
// may have it open.
func Remove(path string) error { return removeFile(path) }
