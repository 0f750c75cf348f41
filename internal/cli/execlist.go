package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"time"
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

func (c *execListCmd) Run(ctx context.Context, std *streams) error {
	if _, err := tagsOf(c.Tags); err != nil {
		return err
	}
	params := url.Values{}
	for name, value := range map[string]string{"status": c.Status, "session": c.Session, "since": c.Since.String(), "text": c.Search} {
		if value != "" {
			params.Set(name, value)
		}
	}
	if len(c.Tags) > 0 {
		params["tag"] = c.Tags
	}
	rows, more, err := c.pages(ctx, "/api/executions", "executions", params, c.Limit)
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
		started := "-" // started_at of a queued run is the time of its acceptance
		if !e.Queued {
			started = std.out.formatWhen(e.StartedAt)
		}
		w.row(e.ExecutionID, e.state(), started, e.runTime(time.Now()), e.session(), oneLine(e.CodePreview, 200))
	}
	if err := flushPage(w, std, more, c.Limit); err != nil || len(rows) > 0 {
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
		return e.Status
	}
}

// runTime returns the time that the run took, up to now if it has not ended.
func (e listedExecution) runTime(now time.Time) string {
	if e.CompletedAt == nil && !e.Queued {
		text := now.UTC().Format(time.RFC3339Nano)
		return formatInterval(e.StartedAt, &text)
	}
	return formatInterval(e.StartedAt, e.CompletedAt)
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
