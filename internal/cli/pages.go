package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"daybook/internal/cli/terminal"
)

// mostRows is the maximum size of a page of the server.
const mostRows = 1000

// page is a page of a list. text is the answer that the rows were decoded from. cursor is
// empty on the last page.
type page[T any] struct {
	rows   []T
	text   json.RawMessage
	cursor string
}

// rows are rows of a list. raw holds the JSON of each row. cursor is empty after the last
// row of the list.
type rows[T any] struct {
	list   []T
	raw    []json.RawMessage
	cursor string
}

// readPages reads a list page by page until it has as many rows as the limit, or all rows
// if the limit is 0. member is the name of the member of an answer that holds the rows.
func readPages[T any](member string, limit int, read func(limit int, cursor string) (page[T], error)) (rows[T], error) {
	var all rows[T]
	for {
		want := mostRows
		if limit > 0 {
			want = min(want, limit-len(all.list))
		}
		next, err := read(want, all.cursor)
		if err != nil {
			return all, err
		}
		var members map[string]json.RawMessage
		var raw []json.RawMessage
		if err = json.Unmarshal(next.text, &members); err == nil {
			err = json.Unmarshal(members[member], &raw)
		}
		if err != nil {
			return all, fmt.Errorf("read the server's answer: %w", err) // unexpected: read has decoded the same answer
		}
		all.list, all.raw, all.cursor = append(all.list, next.rows...), append(all.raw, raw...), next.cursor
		if all.cursor == "" || limit > 0 && len(all.list) >= limit {
			return all, nil
		}
	}
}

// checkLimit checks --limit and the flags of every client.
func (f clientFlags) checkLimit(limit int) error {
	if limit < 0 {
		return fmt.Errorf("--limit is %d: it must be 0 or more", limit)
	}
	return f.Validate()
}

// print prints the rows as one page of the server.
func (r rows[T]) print(out *terminal.Screen, name string) error {
	list := make([]string, len(r.raw))
	for i, row := range r.raw {
		list[i] = compact(row)
	}
	next := ""
	if r.cursor != "" {
		next = fmt.Sprintf(`,"next_cursor":%q`, r.cursor)
	}
	return out.WriteJSON(fmt.Sprintf(`{%q:[%s]%s}`, name, strings.Join(list, ","), next))
}
