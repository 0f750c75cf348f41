package projections

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Newest stands for the newest execution or heap where an id may be abbreviated.
const Newest = "@last"

// maxCandidates limits the ids that an AmbiguousError lists.
const maxCandidates = 10

// AmbiguousError is returned for a prefix that several ids have, and for a text that
// several sessions match.
type AmbiguousError struct {
	What   string // "execution", "heap" or "session"
	Prefix string
	// Candidates holds at most ten of the ids, in descending order, or at most five
	// descriptions of sessions, the last used first.
	Candidates []string
	More       bool // there are further candidates
}

func (e *AmbiguousError) Error() string {
	others := ""
	if e.More {
		others = " and others"
	}
	return fmt.Sprintf("%s %q is ambiguous: %s%s; give more characters", e.What, e.Prefix, strings.Join(e.Candidates, ", "), others)
}

// ResolveExecution returns the tenant's only execution whose id has the prefix text, or
// the newest execution if text is Newest. session, if not empty, restricts Newest to
// the executions of that named session. It returns events.ErrNotFound if no id matches,
// an *AmbiguousError if several do, and ErrBadQuery if text cannot be the prefix of an
// id.
func (s *Store) ResolveExecution(ctx context.Context, tenant, text, session string) (string, error) {
	if text == Newest {
		return s.newestOf(ctx, tenant, session, "execution", "execution_id", "")
	}
	prefix, err := parsePrefix("an execution", text, 36, "0123456789abcdef-")
	if err != nil {
		return "", err
	}
	return s.resolve(ctx, "execution", prefix, tenant, `SELECT execution_id FROM executions WHERE tenant = ? AND execution_id >= ? AND execution_id < ? ORDER BY execution_id DESC LIMIT ?`)
}

// ResolveHeap is ResolveExecution for heaps: heaps that executions left, including
// collected ones, and heaps with tags. Newest is the output heap of the newest
// execution that has one.
func (s *Store) ResolveHeap(ctx context.Context, tenant, text, session string) (string, error) {
	if text == Newest {
		return s.newestOf(ctx, tenant, session, "heap", "output_heap", " AND output_heap IS NOT NULL")
	}
	prefix, err := parsePrefix("a heap", text, 64, "0123456789abcdef")
	if err != nil {
		return "", err
	}
	return s.resolve(ctx, "heap", prefix, tenant,
		`SELECT heap FROM heaps WHERE tenant = ? AND heap >= ? AND heap < ? ORDER BY heap DESC LIMIT ?`,
		`SELECT heap FROM tagged WHERE tenant = ? AND heap >= ? AND heap < ? AND tags <> '{}' ORDER BY heap DESC LIMIT ?`)
}

// parsePrefix checks that text can be the prefix of an id.
func parsePrefix(what, text string, most int, alphabet string) (string, error) {
	prefix := strings.ToLower(text)
	if prefix == "" || len(prefix) > most || strings.Trim(prefix, alphabet) != "" {
		return "", badQuery("id %.80q is neither %s nor the beginning of the id of %s", text, Newest, what)
	}
	return prefix, nil
}

// resolve returns the only id with a prefix among the results of queries. Each query
// lists the ids of a range in descending order. Ids of one moment share long prefixes,
// so a prefix is searched as a range of an index.
func (s *Store) resolve(ctx context.Context, what, prefix, tenant string, queries ...string) (string, error) {
	var list []string
	for _, query := range queries {
		// Every character of an id is less than "g".
		ids, err := s.readColumn(ctx, query, tenant, prefix, prefix+"g", maxCandidates+1)
		if err != nil {
			return "", fmt.Errorf("resolve %s %s: %w", what, prefix, err)
		}
		list = append(list, ids...)
	}
	slices.Sort(list)
	list = slices.Compact(list)
	slices.Reverse(list)
	switch {
	case len(list) == 0:
		return "", notFound(what, prefix)
	case len(list) == 1 || list[len(list)-1] == prefix:
		return list[len(list)-1], nil
	default:
		e := &AmbiguousError{What: what, Prefix: prefix, Candidates: list, More: len(list) > maxCandidates}
		e.Candidates = list[:min(len(list), maxCandidates)]
		return "", e
	}
}

// readColumn returns the only column of a query.
func (s *Store) readColumn(ctx context.Context, query string, args ...any) ([]string, error) {
	return readTexts(ctx, s.reader, query, args...)
}

// newestOf returns a column of the newest execution that meets a condition.
func (s *Store) newestOf(ctx context.Context, tenant, session, what, column, condition string) (string, error) {
	w, err := filterCondition(tenant, ExecutionFilter{Session: session})
	if err != nil {
		return "", err
	}
	var id string
	err = s.reader.QueryRowContext(ctx, "SELECT "+column+w.sql+condition+" ORDER BY requested_seq DESC LIMIT 1", w.args...).Scan(&id)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", notFound(what, Newest)
	case err != nil:
		return "", fmt.Errorf("find the newest %s: %w", what, err)
	}
	return id, nil
}
