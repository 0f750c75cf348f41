package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"text/tabwriter"
)

type execCmd struct {
	List   execListCmd   `cmd:"" help:"List executions, newest first."`
	Get    execGetCmd    `cmd:"" help:"Show one execution."`
	Output execOutputCmd `cmd:"" help:"Print the output an execution has written so far."`
	Watch  execWatchCmd  `cmd:"" help:"Print the output of an execution as it comes, then its result; exit like \"daybook run\"."`
	Cancel execCancelCmd `cmd:"" help:"Cancel a running execution."`
	Calls  execCallsCmd  `cmd:"" help:"List what an execution called on MCP servers."`
	Events execEventsCmd `cmd:"" help:"Print the events of an execution, one CloudEvent a line."`
}

type execListCmd struct {
	clientFlags
	Status  string `help:"Only this status: running, completed, failed, timed_out or cancelled." placeholder:"STATUS"`
	Session string `help:"Only runs logged under this session." placeholder:"NAME"`
	Limit   int    `help:"At most this many, 1 to 1000." default:"20" placeholder:"N"`
}

// Run prints a table of executions.
func (c *execListCmd) Run(ctx context.Context, std *streams) error {
	path := "/api/executions" + query("status", c.Status, "session", c.Session, "limit", strconv.Itoa(c.Limit))
	return c.show(ctx, std.out, path, func(raw []byte) error {
		var page struct {
			Executions []struct {
				ExecutionID string  `json:"execution_id"`
				Status      string  `json:"status"`
				StartedAt   string  `json:"started_at"`
				CompletedAt *string `json:"completed_at"`
				Attempt     int     `json:"attempt"`
			} `json:"executions"`
			NextCursor string `json:"next_cursor"`
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return err
		}
		w := table(std.out, "EXECUTION", "STATUS", "STARTED", "COMPLETED", "ATTEMPT")
		for _, e := range page.Executions {
			// Only runs that were interrupted have had more than one.
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\n", e.ExecutionID, e.Status, e.StartedAt, orDash(e.CompletedAt), max(e.Attempt, 1))
		}
		return flushPage(w, std, page.NextCursor, c.Limit)
	})
}

type execGetCmd struct {
	clientFlags
	ID string `arg:"" help:"Execution id." placeholder:"ID"`
}

// Run prints everything on record about an execution.
func (c *execGetCmd) Run(ctx context.Context, std *streams) error {
	return c.show(ctx, std.out, "/api/executions/"+url.PathEscape(c.ID), func(raw []byte) error {
		return printFields(std.out, raw)
	})
}

type execOutputCmd struct {
	clientFlags
	ID string `arg:"" help:"Execution id." placeholder:"ID"`
}

// Run prints the output page by page until there is no more.
func (c *execOutputCmd) Run(ctx context.Context, std *streams) error {
	for offset := int64(0); ; {
		var page struct {
			Data string `json:"data"`
			Next int64  `json:"next_byte_offset"`
			More bool   `json:"has_more"`
		}
		path := fmt.Sprintf("/api/executions/%s/output?byte_offset=%d&byte_limit=1048576", url.PathEscape(c.ID), offset)
		var raw json.RawMessage
		if err := c.call(ctx, http.MethodGet, path, nil, &raw); err != nil {
			return err
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return fmt.Errorf("read the server's answer: %w", err)
		}
		text := page.Data
		if c.JSON {
			text = compact(raw) + "\n"
		}
		if _, err := io.WriteString(std.out, text); err != nil {
			return err
		}
		if !page.More {
			return nil
		}
		offset = page.Next
	}
}

type execWatchCmd struct {
	clientFlags
	ID string `arg:"" help:"Execution id." placeholder:"ID"`
}

// Run follows an execution; an interrupt only stops watching.
func (c *execWatchCmd) Run(ctx context.Context, std *streams) error {
	if err := c.followOutput(ctx, std, url.PathEscape(c.ID)); err != nil {
		return err
	}
	return c.report(ctx, std, url.PathEscape(c.ID))
}

type execCancelCmd struct {
	clientFlags
	ID string `arg:"" help:"Execution id." placeholder:"ID"`
}

// Run cancels; it succeeds only once "cancelled" is on record.
func (c *execCancelCmd) Run(ctx context.Context, std *streams) error {
	var raw json.RawMessage
	if err := c.call(ctx, http.MethodPost, "/api/executions/"+url.PathEscape(c.ID)+"/cancel", nil, &raw); err != nil {
		return err
	}
	if c.JSON {
		_, err := fmt.Fprintf(std.out, "%s\n", compact(raw))
		return err
	}
	_, err := fmt.Fprintln(std.out, "cancelled")
	return err
}

type execEventsCmd struct {
	clientFlags
	ID string `arg:"" help:"Execution id." placeholder:"ID"`
}

// Run prints one CloudEvent a line.
func (c *execEventsCmd) Run(ctx context.Context, std *streams) error {
	var list []json.RawMessage
	if err := c.call(ctx, http.MethodGet, "/api/executions/"+url.PathEscape(c.ID)+"/events", nil, &list); err != nil {
		return err
	}
	for _, e := range list {
		fmt.Fprintf(std.out, "%s\n", compact(e))
	}
	return nil
}

// show gets a path and prints the answer: as it came with --json, else through
// people.
func (f clientFlags) show(ctx context.Context, out io.Writer, path string, people func(raw []byte) error) error {
	var raw json.RawMessage
	if err := f.call(ctx, http.MethodGet, path, nil, &raw); err != nil {
		return err
	}
	if f.JSON {
		_, err := fmt.Fprintf(out, "%s\n", compact(raw))
		return err
	}
	return people(raw)
}

func table(out io.Writer, columns ...string) *tabwriter.Writer {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for i, c := range columns {
		if i > 0 {
			fmt.Fprint(w, "\t")
		}
		fmt.Fprint(w, c)
	}
	fmt.Fprintln(w)
	return w
}

// flushPage ends a table, and tells when it is not all there is.
func flushPage(w *tabwriter.Writer, std *streams, cursor string, limit int) error {
	if err := w.Flush(); err != nil {
		return err
	}
	if cursor != "" {
		fmt.Fprintf(std.err, "There are more than %d; raise --limit to see them.\n", limit)
	}
	return nil
}

// printFields prints the members of a JSON object in the order they came.
func printFields(out io.Writer, raw []byte) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil {
		return err
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return err
		}
		var text string
		switch {
		case string(value) == "null":
			text = "-"
		case json.Unmarshal(value, &text) == nil:
		default:
			text = compact(value)
		}
		fmt.Fprintf(w, "%s\t%s\n", key, text)
	}
	return w.Flush()
}

func compact(raw []byte) string {
	var buf bytes.Buffer
	if json.Compact(&buf, raw) != nil {
		return string(raw)
	}
	return buf.String()
}

func orDash(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}
