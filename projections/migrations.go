package projections

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// HeapSource is what made a heap: an execution, or a migration.
type HeapSource struct {
	// ExecutionID is the execution that left the heap; empty for a migration. Parent is
	// the heap that it restored; empty for a fresh isolate.
	ExecutionID, Parent string
	// MigratedFrom is the heap of which a migration made this one.
	MigratedFrom string
	// Seq is the position of the last event of the execution, or that of the migration.
	Seq uint64
}

// HeapSource returns what first made a heap, according to the events before a position. An
// execution that left the heap that it restored did not make it. It returns
// events.ErrNotFound if that is not known.
func (s *Store) HeapSource(ctx context.Context, tenant, heap string, before uint64) (HeapSource, error) {
	var found HeapSource
	var parent sql.NullString
	err := s.reader.QueryRowContext(ctx, `SELECT execution_id, input_heap, last_seq FROM executions INDEXED BY executions_by_heap
		WHERE tenant = ? AND output_heap = ? AND last_seq < ? AND input_heap IS NOT output_heap ORDER BY last_seq LIMIT 1`,
		tenant, heap, int64(before)).Scan(&found.ExecutionID, &parent, &found.Seq)
	if errors.Is(err, sql.ErrNoRows) {
		err = s.reader.QueryRowContext(ctx, `SELECT heap, seq FROM migrations INDEXED BY migrations_by_result
			WHERE tenant = ? AND new_heap = ? AND seq < ? AND heap <> new_heap ORDER BY seq LIMIT 1`,
			tenant, heap, int64(before)).Scan(&found.MigratedFrom, &found.Seq)
	}
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return found, notFound("heap", heap)
	case err != nil:
		return found, fmt.Errorf("read what made heap %s: %w", heap, err)
	}
	found.Parent = parent.String
	return found, nil
}

// HeapEngine returns the engine that made a heap. It returns events.ErrNotFound for a heap
// that no known run or migration left.
func (s *Store) HeapEngine(ctx context.Context, tenant, heap string) (engineID string, err error) {
	err = s.reader.QueryRowContext(ctx, `SELECT engine_id FROM heaps WHERE tenant = ? AND heap = ?`, tenant, heap).Scan(&engineID)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", notFound("heap", heap)
	case err != nil:
		return "", fmt.Errorf("read the engine of heap %s: %w", heap, err)
	}
	return engineID, nil
}

// MigratedHeap returns the newest heap that a migration to an engine made of a heap. It
// returns events.ErrNotFound if there is none. The heap may have been collected since.
func (s *Store) MigratedHeap(ctx context.Context, tenant, heap, engineID string) (migrated string, err error) {
	err = s.reader.QueryRowContext(ctx, `SELECT new_heap FROM migrations INDEXED BY migrations_by_heap
		WHERE tenant = ? AND heap = ? AND engine_id = ? ORDER BY seq DESC LIMIT 1`, tenant, heap, engineID).Scan(&migrated)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", notFound("migrated heap", heap)
	case err != nil:
		return "", fmt.Errorf("read the migration of heap %s: %w", heap, err)
	}
	return migrated, nil
}
