package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

type execListCmd struct {
	clientFlags
	Search  string   `arg:"" optional:"" help:"Only runs whose code contains this text, without regard to case." placeholder:"TEXT"`
	Status  string   `help:"Only this status: running, completed, failed, timed_out or cancelled." placeholder:"STATUS"`
	Session string   `help:"Only runs of this session: a name, intent, ref or id, or a unique beginning." placeholder:"SESSION"`
	Tags    []string `name:"tag" sep:"none" help:"Only runs whose heap has this tag; may be repeated." placeholder:"KEY=VALUE"`
	Since   moment   `help:"Only runs accepted since then: a time, a day, or an age such as 90s, 2h or 7d." placeholder:"TIME"`
	Limit   int      `short:"n" help:"Most runs to list; 0 lists all." default:"20" placeholder:"N"`
}

// Help is shown by "daybook exec list --help".
func (c *execListCmd) Help() string {
	return "TEXT is searched in the code as given, without patterns; of code above 64 KiB only the beginning is searched. A script's name from a stack trace, such as main.ts#1a2b3c4d, finds the runs of that code. The server reads the runs one by one, from the newest: a search through a million of them takes seconds.\n\n" +
		"On a terminal times are relative, the table fits the width, and an id may be cut: its beginning is enough wherever an id is wanted."
}

// Validate checks the limit.
func (c *execListCmd) Validate() error {
	if c.Limit < 0 {
		return fmt.Errorf("--limit is %d: it must be 0 or more", c.Limit)
	}
	return c.clientFlags.Validate()
}

// listedExecution is a row of the list.
type listedExecution struct {
	ExecutionID    string  `json:"execution_id"`
	Status         string  `json:"status"`
	StartedAt      string  `json:"started_at"`
	CompletedAt    *string `json:"completed_at"`
	Attempt        int     `json:"attempt"`
	Queued         bool    `json:"queued"`
	Session        *string `json:"session"`
	LogicalSession *string `json:"logical_session"`
	Heap           *string `json:"heap"`
	CodePreview    string  `json:"code_preview"`
}

// Run prints a table of executions.
func (c *execListCmd) Run(ctx context.Context, std *streams) error {
	if _, err := tagsOf(c.Tags); err != nil {
		return err
	}
	rows, more, err := c.pages(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return printPage(std.out, "executions", rows, more)
	}
	w := table(std.out, "EXECUTION", "STATUS", "STARTED", "TOOK", "SESSION", "CODE")
	for _, raw := range rows {
		var e listedExecution
		if err := json.Unmarshal(raw, &e); err != nil {
			return fmt.Errorf("read the server's answer: %w", err)
		}
		w.row(e.ExecutionID, e.state(), std.out.when(e.StartedAt), e.took(time.Now()), e.session(), oneLine(e.CodePreview, 200))
	}
	if err := flushPage(w, std, more, c.Limit); err != nil || len(rows) > 0 {
		return err
	}
	c.noteUnknownSession(ctx, std, c.Session)
	return nil
}

// pages reads the list page by page until there are enough rows.
func (c *execListCmd) pages(ctx context.Context) (rows []json.RawMessage, cursor string, err error) {
	params := []string{"status", c.Status, "session", c.Session, "since", c.Since.String(), "text", c.Search}
	for _, tag := range c.Tags {
		params = append(params, "tag", tag)
	}
	for {
		want := 1000
		if c.Limit > 0 {
			want = min(want, c.Limit-len(rows))
		}
		var page struct {
			Executions []json.RawMessage `json:"executions"`
			NextCursor string            `json:"next_cursor"`
		}
		path := "/api/executions" + query(append(params, "limit", strconv.Itoa(want), "cursor", cursor)...)
		if err := c.call(ctx, http.MethodGet, path, nil, &page); err != nil {
			return nil, "", err
		}
		rows, cursor = append(rows, page.Executions...), page.NextCursor
		if cursor == "" || c.Limit > 0 && len(rows) >= c.Limit {
			return rows, cursor, nil
		}
	}
}

// printPage prints rows as the server would answer them on one page.
func printPage(out *screen, name string, rows []json.RawMessage, cursor string) error {
	list := make([]string, len(rows))
	for i, row := range rows {
		list[i] = compact(row)
	}
	next := ""
	if cursor != "" {
		next = fmt.Sprintf(`,"next_cursor":%q`, cursor)
	}
	_, err := fmt.Fprintf(out, `{%q:[%s]%s}`+"\n", name, strings.Join(list, ","), next)
	return err
}

// state is the status, and what there is to say of it.
func (e listedExecution) state() string {
	switch {
	case e.Queued:
		return "queued"
	case e.Attempt > 1:
		return fmt.Sprintf("%s (attempt %d)", e.Status, e.Attempt)
	default:
		return e.Status
	}
}

// took is how long it ran, up to now if it still does.
func (e listedExecution) took(now time.Time) string {
	if e.CompletedAt == nil && !e.Queued {
		text := now.UTC().Format(time.RFC3339Nano)
		return between(e.StartedAt, &text)
	}
	return between(e.StartedAt, e.CompletedAt)
}

func (e listedExecution) session() string {
	switch {
	case e.Session != nil:
		return *e.Session
	case e.LogicalSession != nil:
		return shortKeyOf(e.LogicalSession)
	default:
		return "-"
	}
}
