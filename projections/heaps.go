package projections

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxLineage bounds an ancestry.
const maxLineage = 10_000

// HeapTags returns the tags in force on a heap: an empty map when there are
// none, also for a heap that is not on record.
func (s *Store) HeapTags(ctx context.Context, tenant, heap string) (map[string]string, error) {
	tags := map[string]string{}
	var raw string
	err := s.reader.QueryRowContext(ctx, "SELECT tags FROM tagged WHERE tenant = ? AND heap = ?", tenant, heap).Scan(&raw)
	if errors.Is(err, sql.ErrNoRows) {
		return tags, nil
	}
	if err == nil {
		err = json.Unmarshal([]byte(raw), &tags)
	}
	if err != nil {
		return nil, fmt.Errorf("read the tags of heap %s: %w", heap, err)
	}
	return tags, nil
}

// HeapsByTags returns the heaps that carry every pair, ordered by key. No pairs
// find every tagged heap.
func (s *Store) HeapsByTags(ctx context.Context, tenant string, tags map[string]string) ([]TaggedHeap, error) {
	query, args := "SELECT heap, tags FROM tagged t WHERE tenant = ? AND tags <> '{}'", []any{tenant}
	if len(tags) > 0 {
		// The rarest pair should lead; SQLite cannot know it, so count a little.
		keys := slices.Sorted(maps.Keys(tags))
		lead, fewest := keys[0], -1
		for _, key := range keys {
			n, err := s.countTagged(ctx, tenant, key, tags[key])
			if err != nil {
				return nil, err
			}
			if fewest < 0 || n < fewest {
				lead, fewest = key, n
			}
		}
		var b strings.Builder
		b.WriteString("SELECT a.heap, t.tags FROM heap_tags a JOIN tagged t ON t.tenant = a.tenant AND t.heap = a.heap WHERE a.tenant = ? AND a.key = ? AND a.value = ?")
		args = append(args, lead, tags[lead])
		for _, key := range keys {
			if key != lead {
				b.WriteString(" AND EXISTS (SELECT 1 FROM heap_tags o WHERE o.tenant = a.tenant AND o.key = ? AND o.value = ? AND o.heap = a.heap)")
				args = append(args, key, tags[key])
			}
		}
		b.WriteString(" ORDER BY a.heap")
		query = b.String()
	} else {
		query += " ORDER BY heap"
	}
	rows, err := s.reader.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("find heaps by tags: %w", err)
	}
	defer rows.Close()
	list := []TaggedHeap{}
	for rows.Next() {
		var h TaggedHeap
		var raw []byte
		if err := rows.Scan(&h.Heap, &raw); err != nil {
			return nil, fmt.Errorf("find heaps by tags: %w", err)
		}
		if err := json.Unmarshal(raw, &h.Tags); err != nil {
			return nil, fmt.Errorf("find heaps by tags: %w", err)
		}
		list = append(list, h)
	}
	return list, rows.Err()
}

// countTagged counts the heaps with one pair, up to a bound past which the
// exact number no longer matters.
func (s *Store) countTagged(ctx context.Context, tenant, key, value string) (n int, err error) {
	err = s.reader.QueryRowContext(ctx, "SELECT count(*) FROM (SELECT 1 FROM heap_tags WHERE tenant = ? AND key = ? AND value = ? LIMIT 1000)", tenant, key, value).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("find heaps by tags: %w", err)
	}
	return n, nil
}

// TagHistory returns every edit of a heap's tags, oldest first.
func (s *Store) TagHistory(ctx context.Context, tenant, heap string) ([]TagEdit, error) {
	rows, err := s.reader.QueryContext(ctx, "SELECT seq, edit, tags, actor, execution_id, at FROM tag_edits WHERE tenant = ? AND heap = ? ORDER BY seq", tenant, heap)
	if err != nil {
		return nil, fmt.Errorf("read the tag history of heap %s: %w", heap, err)
	}
	defer rows.Close()
	list := []TagEdit{}
	for rows.Next() {
		var e TagEdit
		var tags, actor []byte
		var at int64
		err := rows.Scan(&e.Seq, &e.Edit, &tags, &actor, &e.ExecutionID, &at)
		if err == nil {
			err = errors.Join(json.Unmarshal(tags, &e.Tags), json.Unmarshal(actor, &e.Actor))
		}
		if err != nil {
			return nil, fmt.Errorf("read the tag history of heap %s: %w", heap, err)
		}
		e.Time = formatMillis(at)
		list = append(list, e)
	}
	return list, rows.Err()
}

const heapColumns = "SELECT h.heap, h.size, h.engine_id, h.created_at, h.parent, h.execution_id, coalesce(t.tags, '{}'), h.seq FROM heaps h LEFT JOIN tagged t ON t.tenant = h.tenant AND t.heap = h.heap "

// Heap returns what is on record about a heap that a run made, or
// events.ErrNotFound.
func (s *Store) Heap(ctx context.Context, tenant, heap string) (Heap, error) {
	h, _, err := scanHeap(s.reader.QueryRowContext(ctx, heapColumns+"WHERE h.tenant = ? AND h.heap = ?", tenant, heap))
	if errors.Is(err, sql.ErrNoRows) {
		return h, notFound("heap", heap)
	}
	if err != nil {
		return h, fmt.Errorf("read heap %s: %w", heap, err)
	}
	return h, nil
}

// Heaps lists heaps that runs made, newest first. limit is 1 to MaxListLimit.
func (s *Store) Heaps(ctx context.Context, tenant string, limit int, cursor string) (HeapPage, error) {
	page := HeapPage{Heaps: []Heap{}}
	if limit < 1 || limit > MaxListLimit {
		return page, badQuery("limit %d is out of range: 1 to %d", limit, MaxListLimit)
	}
	before := uint64(1<<63 - 1)
	if cursor != "" {
		var err error
		if before, err = parseCursor(cursor); err != nil {
			return page, err
		}
	}
	rows, err := s.reader.QueryContext(ctx, heapColumns+"WHERE h.tenant = ? AND h.seq < ? ORDER BY h.seq DESC LIMIT ?", tenant, before, limit+1)
	if err != nil {
		return page, fmt.Errorf("list heaps: %w", err)
	}
	defer rows.Close()
	var last uint64
	for rows.Next() {
		if len(page.Heaps) == limit {
			page.NextCursor = formatCursor(last)
			break
		}
		h, seq, err := scanHeap(rows)
		if err != nil {
			return page, fmt.Errorf("list heaps: %w", err)
		}
		last = seq
		page.Heaps = append(page.Heaps, h)
	}
	return page, rows.Err()
}

func scanHeap(row interface{ Scan(...any) error }) (h Heap, seq uint64, err error) {
	var created int64
	var tags []byte
	if err := row.Scan(&h.Heap, &h.Size, &h.EngineID, &created, &h.Parent, &h.ExecutionID, &tags, &seq); err != nil {
		return h, 0, err
	}
	at := formatMillis(created)
	h.CreatedAt = &at
	return h, seq, json.Unmarshal(tags, &h.Tags)
}

// Lineage returns the ancestry of a heap: the first run known to have made it,
// then the one that made its parent, back to a fresh isolate. A heap that no
// run is known to have made is events.ErrNotFound.
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
			break // a run can lead back to a heap that was there before
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
