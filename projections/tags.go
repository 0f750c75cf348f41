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
		lead, _, err := rarest(ctx, s.reader, tenant, tags)
		if err != nil {
			return nil, fmt.Errorf("find heaps by tags: %w", err)
		}
		var b strings.Builder
		b.WriteString("SELECT a.heap, t.tags FROM heap_tags a JOIN tagged t ON t.tenant = a.tenant AND t.heap = a.heap WHERE a.tenant = ? AND a.key = ? AND a.value = ?")
		args = append(args, lead, tags[lead])
		for _, key := range slices.Sorted(maps.Keys(tags)) {
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

// manyHeaps is how many heaps with one pair are counted: past it the exact
// number no longer matters.
const manyHeaps = 1000

// rarest returns the key of the pair that the fewest heaps have, and how many,
// at most manyHeaps. A query should begin at it; SQLite cannot know which it is.
func rarest(ctx context.Context, db interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}, tenant string, tags map[string]string,
) (lead string, fewest int, err error) {
	fewest = manyHeaps + 1
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		var n int
		err := db.QueryRowContext(ctx, "SELECT count(*) FROM (SELECT 1 FROM heap_tags WHERE tenant = ? AND key = ? AND value = ? LIMIT ?)", tenant, key, tags[key], manyHeaps).Scan(&n)
		if err != nil {
			return "", 0, err
		}
		if n < fewest {
			lead, fewest = key, n
		}
	}
	return lead, fewest, nil
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
