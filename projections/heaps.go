package projections

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"daybook/events"
)

// maxLineage limits the length of a lineage.
const maxLineage = 10_000

const heapColumns = "SELECT h.heap, h.size, h.engine_id, h.created_at, h.parent, h.execution_id, coalesce(t.tags, '{}'), h.lost_seq, (SELECT m.heap FROM migrations m WHERE m.tenant = h.tenant AND m.new_heap = h.heap ORDER BY m.seq LIMIT 1), h.seq, h.collected_seq, h.collected_at FROM heaps h LEFT JOIN tagged t ON t.tenant = h.tenant AND t.heap = h.heap "

// Heap returns the details of a heap that a run left. It returns events.ErrNotFound if
// no known run left it, and an *events.RemovedError if it was collected.
func (s *Store) Heap(ctx context.Context, tenant, heap string) (Heap, error) {
	h, _, removed, err := scanHeap(s.reader.QueryRowContext(ctx, heapColumns+"WHERE h.tenant = ? AND h.heap = ?", tenant, heap).Scan)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return h, notFound("heap", heap)
	case err != nil:
		return h, fmt.Errorf("read heap %s: %w", heap, err)
	case removed != nil:
		return Heap{}, removed
	}
	return h, nil
}

// Heaps lists the heaps that runs left and that were not collected, newest first. limit
// is 1 to MaxListLimit. after is the NextCursor of the previous page, or empty.
func (s *Store) Heaps(ctx context.Context, tenant string, limit int, after string) (HeapPage, error) {
	page := HeapPage{Heaps: []Heap{}}
	if limit < 1 || limit > MaxListLimit {
		return page, badQuery("limit %d is out of range: 1 to %d", limit, MaxListLimit)
	}
	before, err := parseStart(after, cursorHeaps)
	if err != nil {
		return page, err
	}
	rows, err := s.reader.QueryContext(ctx, heapColumns+"WHERE h.tenant = ? AND h.seq < ? AND h.collected_seq IS NULL ORDER BY h.seq DESC LIMIT ?", tenant, before, limit+1)
	if err != nil {
		return page, fmt.Errorf("list heaps: %w", err)
	}
	page.Heaps, page.NextCursor, err = readPage(rows, limit, cursorHeaps, func(row func(...any) error) (Heap, uint64, error) {
		h, seq, _, err := scanHeap(row)
		return h, seq, err
	})
	if err != nil {
		return page, fmt.Errorf("list heaps: %w", err)
	}
	return page, nil
}

func scanHeap(scan func(...any) error) (h Heap, seq uint64, removed *events.RemovedError, err error) {
	var created int64
	var tags []byte
	var collected, at sql.NullInt64
	if err := scan(&h.Heap, &h.Size, &h.EngineID, &created, &h.Parent, &h.ExecutionID, &tags, &h.Lost, &h.MigratedFrom, &seq, &collected, &at); err != nil {
		return h, 0, nil, err
	}
	if collected.Valid {
		removed = events.Collected(h.Heap, uint64(collected.Int64), time.UnixMilli(at.Int64))
	}
	createdAt := formatMillis(created)
	h.CreatedAt = &createdAt
	return h, seq, removed, json.Unmarshal(tags, &h.Tags)
}

// Lineage returns the lineage of a heap: the first known run that produced it, then the
// first run that produced its parent heap, back to a fresh isolate. It returns
// events.ErrNotFound for a heap that no known run produced.
func (s *Store) Lineage(ctx context.Context, tenant, heap string) ([]HeapOrigin, error) {
	rows, err := s.reader.QueryContext(ctx, `WITH RECURSIVE line (heap, execution_id, parent, created_at, depth) AS (
			SELECT heap, execution_id, parent, created_at, 1 FROM heaps WHERE tenant = ?1 AND heap = ?2
			UNION ALL
			SELECT h.heap, h.execution_id, h.parent, h.created_at, depth + 1 FROM line JOIN heaps h ON h.tenant = ?1 AND h.heap = line.parent AND h.heap <> line.heap WHERE depth < ?3
		) SELECT heap, execution_id, parent, created_at FROM line`, tenant, heap, maxLineage)
	if err != nil {
		return nil, fmt.Errorf("read the lineage of heap %s: %w", heap, err)
	}
	defer rows.Close()
	list := []HeapOrigin{}
	seen := map[string]bool{}
	for rows.Next() {
		var o HeapOrigin
		var created int64
		if err := rows.Scan(&o.Heap, &o.ExecutionID, &o.Parent, &created); err != nil {
			return nil, fmt.Errorf("read the lineage of heap %s: %w", heap, err)
		}
		if seen[o.Heap] {
			break // a run can return to an earlier heap
		}
		seen[o.Heap] = true
		o.CreatedAt = formatMillis(created)
		list = append(list, o)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read the lineage of heap %s: %w", heap, err)
	}
	if len(list) == 0 {
		return nil, notFound("heap", heap)
	}
	return list, nil
}
