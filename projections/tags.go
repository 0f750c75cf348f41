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

// HeapsByTags finds the heaps that carry every pair, those that no run is known
// to have made too, ordered by key. No pairs find every tagged heap. A bad query
// is an ErrBadQuery naming its member.
func (s *Store) HeapsByTags(ctx context.Context, tenant string, q TagQuery) (HeapPage, error) {
	page := HeapPage{Heaps: []Heap{}}
	if q.Limit < 0 || q.Limit > MaxListLimit {
		return page, badQuery("limit %d is out of range: 1 to %d", q.Limit, MaxListLimit)
	}
	if len(q.Tags) > maxQueryTags {
		return page, badQuery("tags are %d, and no heap has more than %d: ask for fewer", len(q.Tags), maxQueryTags)
	}
	var after []byte // a hash; every hash is more than no bytes
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
	// maxQueryTags is how many tags a heap can have.
	maxQueryTags = 64
	// maxJoins keeps a query below the 64 tables that SQLite joins at most.
	maxJoins = 32
)

// carriersQuery selects what scanTagged reads, of the heaps with every pair and
// a hash past after, in the order of the hash.
func carriersQuery(tenant string, pairs []tagPair, after []byte) (query string, args []any) {
	const columns = "SELECT t.heap, t.tags, h.size, h.engine_id, h.created_at, h.parent, h.execution_id, h.lost_seq FROM "
	const made = " LEFT JOIN heaps h ON h.tenant = t.tenant AND h.heap = t.heap"
	if len(pairs) == 0 {
		return columns + "tagged t" + made + " WHERE t.tenant = ? AND t.heap > ? AND t.tags <> '{}' ORDER BY t.heap", []any{tenant, hex.EncodeToString(after)}
	}
	// From the rarest pair's heaps on, in a fixed order: SQLite knows neither
	// which pair that is nor that the tags are best read last. The mask spares
	// looking up most heaps that lack one of the others.
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

// manyHeaps is how many heaps make a pair a common one.
const manyHeaps = 1000

// tagPair is a pair and how many heaps carry it, at most the limit that was counted to.
type tagPair struct {
	hash  pairHash
	heaps int64
}

const (
	// firstCount and mostCount bound how many heaps of a pair are counted. The limit
	// grows until a pair has fewer.
	firstCount = manyHeaps
	mostCount  = 32 * manyHeaps
)

// pairsOf finds pairs, the one that the fewest heaps carry first. Pairs with more than
// mostCount heaps count as equal.
func pairsOf(ctx context.Context, tx *sql.Tx, tenant string, tags map[string]string) ([]tagPair, error) {
	pairs := make([]tagPair, 0, len(tags))
	for key, value := range tags {
		pairs = append(pairs, tagPair{hash: pairOf(tenant, key, value)})
	}
	for limit := int64(firstCount); ; limit *= 8 {
		for i := range pairs {
			p := &pairs[i]
			if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM (SELECT 1 FROM heap_tags WHERE pair = ? LIMIT ?)", p.hash[:], min(limit, mostCount)).Scan(&p.heaps); err != nil {
				return nil, err
			}
		}
		slices.SortFunc(pairs, func(a, b tagPair) int {
			return cmp.Or(cmp.Compare(a.heaps, b.heaps), bytes.Compare(a.hash[:], b.hash[:]))
		})
		if len(pairs) < 2 || pairs[0].heaps < limit || limit >= mostCount {
			return pairs, nil
		}
	}
}

// TagHistory returns a page of the edits of a heap's tags, oldest first. Limit is 1 to
// MaxListLimit; cursor is the NextCursor of the page before, or empty. A bad limit or
// cursor is an ErrBadQuery.
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

// taggedBytes is about what a row with tags takes.
func taggedBytes(tags map[string]string) int {
	n := 512
	for key, value := range tags {
		n += len(key) + len(value)
	}
	return n
}
