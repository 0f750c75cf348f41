package projections

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"daybook/internal/resources/budget"
)

// HeapTags returns the current tags of a heap. The map is empty if there are none or
// the heap is unknown.
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

// HeapsByTags returns the heaps that carry all pairs of q, ordered by key, including
// heaps that no known run left. Without pairs it returns all tagged heaps. It returns
// an ErrBadQuery that names the parameter if q is invalid.
func (s *Store) HeapsByTags(ctx context.Context, tenant string, q TagQuery) (HeapPage, error) {
	page := HeapPage{Heaps: []Heap{}}
	if q.Limit < 0 || q.Limit > MaxListLimit {
		return page, badQuery("limit %d is out of range: 1 to %d", q.Limit, MaxListLimit)
	}
	if len(q.Tags) > maxQueryTags {
		return page, badQuery("%d tags are given, and no heap has more than %d; give fewer tags", len(q.Tags), maxQueryTags)
	}
	var after []byte // a hash; every hash is greater than the empty one
	if q.Cursor != "" {
		var err error
		if after, err = parseTagCursor(q.Cursor); err != nil {
			return page, err
		}
	}
	tx, err := s.reader.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return page, fmt.Errorf("find heaps by tags: %w", err)
	}
	defer tx.Rollback()
	pairs, err := pairsOf(ctx, tx, tenant, q.Tags)
	if err != nil {
		return page, fmt.Errorf("find heaps by tags: %w", err)
	}
	query, args := carriersQuery(tenant, pairs, after)
	if q.Limit > 0 {
		query, args = query+" LIMIT ?", append(args, q.Limit+1)
	}
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return page, fmt.Errorf("find heaps by tags: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		if q.Limit > 0 && len(page.Heaps) == q.Limit {
			page.NextCursor = tagCursor(page.Heaps[q.Limit-1].Heap)
			break
		}
		h, err := scanTagged(rows)
		if err != nil {
			return page, fmt.Errorf("find heaps by tags: %w", err)
		}
		if err := budget.Take(ctx, taggedBytes(h.Tags)); err != nil {
			return page, err
		}
		page.Heaps = append(page.Heaps, h)
	}
	return page, rows.Err()
}

const (
	// maxQueryTags is the largest number of tags of a heap.
	maxQueryTags = 64
	// maxJoins keeps a query below 64 tables, which is SQLite's limit for a join.
	maxJoins = 32
)

// carriersQuery selects the columns that scanTagged reads, for the heaps that carry all
// pairs and have a hash greater than after, in the order of the hash.
func carriersQuery(tenant string, pairs []tagPair, after []byte) (query string, args []any) {
	const columns = "SELECT t.heap, t.tags, h.size, h.engine_id, h.created_at, h.parent, h.execution_id, h.lost_seq FROM "
	const made = " LEFT JOIN heaps h ON h.tenant = t.tenant AND h.heap = t.heap"
	if len(pairs) == 0 {
		return columns + "tagged t" + made + " WHERE t.tenant = ? AND t.heap > ? AND t.tags <> '{}' ORDER BY t.heap", []any{tenant, hex.EncodeToString(after)}
	}
	// The joins have a fixed order, which starts at the heaps of the rarest pair:
	// SQLite knows neither which pair that is nor that tags are best read last. The
	// mask avoids most lookups of heaps that lack one of the other pairs.
	var mask int64
	for _, p := range pairs {
		mask |= maskOf(p.hash)
	}
	var b strings.Builder
	b.WriteString(columns + "heap_tags a")
	joined := pairs[1:min(len(pairs), maxJoins)]
	for n, p := range joined {
		fmt.Fprintf(&b, " CROSS JOIN heap_tags a%d ON a%[1]d.pair = ? AND a%[1]d.heap = a.heap", n)
		args = append(args, p.hash[:])
	}
	b.WriteString(" CROSS JOIN tagged t ON t.tenant = ? AND t.heap = lower(hex(a.heap))" + made + " WHERE a.pair = ? AND a.heap > ? AND (a.mask & ?) = ?")
	if after == nil {
		after = []byte{}
	}
	args = append(args, tenant, pairs[0].hash[:], after, mask, mask)
	for _, p := range pairs[1+len(joined):] {
		b.WriteString(" AND EXISTS (SELECT 1 FROM heap_tags e WHERE e.pair = ? AND e.heap = a.heap)")
		args = append(args, p.hash[:])
	}
	return b.String() + " ORDER BY a.heap", args
}

// scanTagged reads a row of carriersQuery.
func scanTagged(rows *sql.Rows) (h Heap, err error) {
	var tags []byte
	var created sql.NullInt64
	if err := rows.Scan(&h.Heap, &tags, &h.Size, &h.EngineID, &created, &h.Parent, &h.ExecutionID, &h.Lost); err != nil {
		return h, err
	}
	if created.Valid {
		at := formatMillis(created.Int64)
		h.CreatedAt = &at
	}
	return h, json.Unmarshal(tags, &h.Tags)
}

// manyHeaps is the number of heaps that makes a pair a common one.
const manyHeaps = 1000

// tagPair is a pair and the number of heaps that carry it, counted up to a limit.
type tagPair struct {
	hash  pairHash
	heaps int64
}

const (
	// firstCount and maxCount limit how many heaps of a pair are counted. The limit
	// grows until a pair has fewer heaps.
	firstCount = manyHeaps
	maxCount   = 32 * manyHeaps
)

// pairsOf returns pairs, the one that the fewest heaps carry first. Pairs with more
// than maxCount heaps count as equal.
func pairsOf(ctx context.Context, tx *sql.Tx, tenant string, tags map[string]string) ([]tagPair, error) {
	pairs := make([]tagPair, 0, len(tags))
	for key, value := range tags {
		pairs = append(pairs, tagPair{hash: pairOf(tenant, key, value)})
	}
	for limit := int64(firstCount); ; limit *= 8 {
		for i := range pairs {
			p := &pairs[i]
			if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM (SELECT 1 FROM heap_tags WHERE pair = ? LIMIT ?)", p.hash[:], min(limit, maxCount)).Scan(&p.heaps); err != nil {
				return nil, err
			}
		}
		slices.SortFunc(pairs, func(a, b tagPair) int {
			return cmp.Or(cmp.Compare(a.heaps, b.heaps), bytes.Compare(a.hash[:], b.hash[:]))
		})
		if len(pairs) < 2 || pairs[0].heaps < limit || limit >= maxCount {
			return pairs, nil
		}
	}
}

// TagHistory returns a page of the edits of a heap's tags, oldest first. limit is 1 to
// MaxListLimit; cursorText is the NextCursor of the previous page, or empty. It returns
// an ErrBadQuery for an invalid limit or cursor.
func (s *Store) TagHistory(ctx context.Context, tenant, heap string, limit int, cursorText string) (page TagEditPage, err error) {
	page.Edits = []TagEdit{}
	if limit < 1 || limit > MaxListLimit {
		return page, badQuery("limit %d is out of range: 1 to %d", limit, MaxListLimit)
	}
	var after cursor
	if cursorText != "" {
		if after, err = parseCursorFrom("the oldest edit", cursorText, cursorTagEdits); err != nil {
			return page, err
		}
	}
	rows, err := s.reader.QueryContext(ctx, "SELECT seq, edit, tags, actor, execution_id, at FROM tag_edits WHERE tenant = ? AND heap = ? AND seq > ? ORDER BY seq LIMIT ?", tenant, heap, after.seq, limit+1)
	if err != nil {
		return page, fmt.Errorf("read the tag history of heap %s: %w", heap, err)
	}
	page.Edits, page.NextCursor, err = readPage(rows, limit, cursorTagEdits, func(row func(...any) error) (e TagEdit, seq uint64, err error) {
		var tags, actor []byte
		var at int64
		if err := row(&e.Seq, &e.Edit, &tags, &actor, &e.ExecutionID, &at); err != nil {
			return e, 0, err
		}
		if err := errors.Join(json.Unmarshal(tags, &e.Tags), json.Unmarshal(actor, &e.Actor)); err != nil {
			return e, 0, err
		}
		e.Time = formatMillis(at)
		return e, e.Seq, budget.Take(ctx, taggedBytes(e.Tags))
	})
	if err != nil {
		return page, fmt.Errorf("read the tag history of heap %s: %w", heap, err)
	}
	return page, nil
}

// taggedBytes estimates the memory of a row with tags, in bytes.
func taggedBytes(tags map[string]string) int {
	n := 512
	for key, value := range tags {
		n += len(key) + len(value)
	}
	return n
}
