package cli

import (
	"context"
	"fmt"
	"time"

	"daybook/internal/cli/terminal"
	"daybook/internal/web/client"
)

type execListCmd struct {
	clientFlags
	Search  string   `arg:"" optional:"" help:"Text that the code contains, ignoring case." placeholder:"TEXT"`
	Status  string   `help:"Status of the runs: running, completed, failed, timed_out or cancelled." placeholder:"STATUS"`
	Session string   `help:"Session of the runs: a name, intent, ref or id, or a unique prefix." placeholder:"SESSION"`
	Tags    []string `name:"tag" sep:"none" help:"Tag that the output heap has, as KEY=VALUE; may be repeated." placeholder:"KEY=VALUE"`
	Since   moment   `help:"Earliest time of acceptance: a time, a day, or an age such as 90s, 2h or 7d." placeholder:"TIME"`
	Limit   int      `short:"n" help:"Maximum number of runs to list; 0 lists all." default:"20" placeholder:"N"`
}

// Help is shown by "daybook exec list --help".
func (c *execListCmd) Help() string {
	return "TEXT is matched literally; only the first 64 KiB of the code are searched. A script name from a stack trace, such as main.ts#1a2b3c4d, finds the runs of that code. The server searches the runs one by one, newest first; a search of a million runs takes seconds.\n\n" +
		"On a terminal, times are relative, the table fits the width, and ids may be shortened; every command accepts a unique prefix of an id."
}

// Validate checks the limit.
func (c *execListCmd) Validate() error { return c.checkLimit(c.Limit) }

// listedExecution is an execution in a list.
type listedExecution client.ExecutionSummary

func (c *execListCmd) Run(ctx context.Context, std *streams) error {
	if _, err := tagsOf(c.Tags); err != nil {
		return err
	}
	filter := client.ExecutionFilter{Status: c.Status, Session: c.Session, Since: c.Since.String(), Text: c.Search, Tags: c.Tags}
	rows, err := readPages("executions", c.Limit, func(limit int, cursor string) (page[client.ExecutionSummary], error) {
		filter.Limit, filter.Cursor = limit, cursor
		a, err := c.api().Executions(ctx, filter)
		return page[client.ExecutionSummary]{a.Body.Executions, a.JSON, a.Body.NextCursor}, err
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return rows.print(std.out, "executions")
	}
	w := terminal.Table(std.out, "EXECUTION", "STATUS", "STARTED", "TOOK", "SESSION", "CODE")
	for _, row := range rows.list {
		e := listedExecution(row)
		started := "-" // started_at of a queued run is the time of its acceptance
		if !e.Queued {
			started = std.out.FormatWhen(e.StartedAt)
		}
		w.Row(e.ExecutionID, e.state(), started, e.runTime(time.Now()), e.session(), terminal.OneLine(e.CodePreview, 200))
	}
	if err := flushPage(w, std, rows.cursor, c.Limit); err != nil || len(rows.list) > 0 {
		return err
	}
	c.noteUnknownSession(ctx, std, c.Session)
	return nil
}

// state returns "queued", or the status with the number of a later attempt.
func (e listedExecution) state() string {
	switch {
	case e.Queued:
		return "queued"
	case e.Attempt > 1:
		return fmt.Sprintf("%s (attempt %d)", e.Status, e.Attempt)
	default:
		return string(e.Status)
	}
}

// runTime returns the time that the run took, up to now if it has not ended.
func (e listedExecution) runTime(now time.Time) string {
	if e.CompletedAt == nil && !e.Queued {
		text := now.UTC().Format(time.RFC3339Nano)
		return terminal.FormatInterval(e.StartedAt, &text)
	}
	return terminal.FormatInterval(e.StartedAt, e.CompletedAt)
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
