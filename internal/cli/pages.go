package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// mostRows is the maximum size of a page of the server.
const mostRows = 1000

// pages reads a list page by page until it has as many rows as the limit, or all rows
// if the limit is 0. The rows are a member of each answer. The cursor is empty after
// the last row.
func (f clientFlags) pages(ctx context.Context, path, member string, params url.Values, limit int) (rows []json.RawMessage, cursor string, err error) {
	for {
		want := mostRows
		if limit > 0 {
			want = min(want, limit-len(rows))
		}
		params.Set("limit", strconv.Itoa(want))
		if cursor != "" {
			params.Set("cursor", cursor)
		}
		var page map[string]json.RawMessage
		if err := f.call(ctx, http.MethodGet, path+"?"+params.Encode(), nil, &page); err != nil {
			return nil, "", err
		}
		var list []json.RawMessage
		cursor = ""
		if err := json.Unmarshal(page[member], &list); err != nil {
			return nil, "", fmt.Errorf("read the server's answer: %w", err)
		}
		if next, ok := page["next_cursor"]; ok {
			if err := json.Unmarshal(next, &cursor); err != nil {
				return nil, "", fmt.Errorf("read the server's answer: %w", err)
			}
		}
		rows = append(rows, list...)
		if cursor == "" || limit > 0 && len(rows) >= limit {
			return rows, cursor, nil
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

// printPage prints rows as one page of the server.
func printPage(out *screen, name string, rows []json.RawMessage, cursor string) error {
	list := make([]string, len(rows))
	for i, row := range rows {
		list[i] = compact(row)
	}
	next := ""
	if cursor != "" {
		next = fmt.Sprintf(`,"next_cursor":%q`, cursor)
	}
	return out.writeJSON(fmt.Sprintf(`{%q:[%s]%s}`, name, strings.Join(list, ","), next))
}
