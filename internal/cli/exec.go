package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/mattn/go-runewidth"

	"daybook/internal/cli/terminal"
)

type execCmd struct {
	List      execListCmd      `cmd:"" help:"List executions, newest first."`
	Show      execShowCmd      `cmd:"" help:"Show the timeline of an execution."`
	Get       execGetCmd       `cmd:"" help:"Show every field of an execution."`
	Output    execOutputCmd    `cmd:"" help:"Print the output of an execution so far."`
	Text      execTextCmd      `cmd:"" help:"Print the code, result, error or files in full."`
	Watch     execWatchCmd     `cmd:"" help:"Follow the output of an execution; exit like \"daybook run\"."`
	Cancel    execCancelCmd    `cmd:"" help:"Cancel a running execution."`
	Calls     execCallsCmd     `cmd:"" help:"List the host calls of an execution."`
	Artifacts execArtifactsCmd `cmd:"" help:"List the artifacts of an execution, and save them as files."`
	Events    execEventsCmd    `cmd:"" help:"Print the events of an execution, one CloudEvent per line."`
}

type execGetCmd struct {
	clientFlags
	oneExecution
}

// Run prints every recorded field of an execution.
func (c *execGetCmd) Run(ctx context.Context, std *streams) error {
	id, err := c.execution(ctx, c.ID)
	if err != nil {
		return err
	}
	answer, err := c.api().Execution(ctx, id)
	if err != nil {
		return err
	}
	if c.JSON {
		return std.out.WriteJSON(compact(answer.JSON))
	}
	return printFields(std.out, answer.JSON)
}

type execOutputCmd struct {
	clientFlags
	oneExecution
}

// Run prints the output page by page.
func (c *execOutputCmd) Run(ctx context.Context, std *streams) error {
	id, err := c.execution(ctx, c.ID)
	if err != nil {
		return err
	}
	for offset := int64(0); ; {
		answer, err := c.api().Output(ctx, id, offset, 1<<20)
		if err != nil {
			return err
		}
		page := answer.Body
		if c.JSON {
			err = std.out.WriteJSON(compact(answer.JSON))
		} else {
			_, err = io.WriteString(std.out, page.Data)
		}
		if err != nil {
			return err
		}
		switch {
		case page.HasMore:
		case page.Truncated && !c.JSON:
			e, err := c.api().Execution(ctx, id)
			if err != nil {
				return err
			}
			return warnTruncated(std.err, e.Body.TotalBytes, e.Body.WrittenBytes)
		default:
			return nil
		}
		offset = page.NextByteOffset
	}
}

type execWatchCmd struct {
	clientFlags
	oneExecution
}

// Run follows an execution. An interrupt ends the command, not the execution.
func (c *execWatchCmd) Run(ctx context.Context, std *streams) error {
	id, err := c.execution(ctx, c.ID)
	if err != nil {
		return err
	}
	if err := c.followOutput(ctx, std, id); err != nil {
		return err
	}
	return c.report(ctx, std, id)
}

type execCancelCmd struct {
	clientFlags
	oneExecution
}

// Run cancels an execution. It succeeds only after the cancellation is recorded.
func (c *execCancelCmd) Run(ctx context.Context, std *streams) error {
	id, err := c.execution(ctx, c.ID)
	if err != nil {
		return err
	}
	answer, err := c.api().Cancel(ctx, id)
	if err != nil {
		return err
	}
	if c.JSON {
		return std.out.WriteJSON(compact(answer.JSON))
	}
	_, err = fmt.Fprintln(std.out, "cancelled")
	return err
}

type execEventsCmd struct {
	clientFlags
	oneExecution
}

// Run prints one CloudEvent per line.
func (c *execEventsCmd) Run(ctx context.Context, std *streams) error {
	id, err := c.execution(ctx, c.ID)
	if err != nil {
		return err
	}
	for e, err := range c.api().ExecutionEvents(ctx, id) {
		if err != nil {
			return err
		}
		if err := std.out.WriteJSON(compact(e.JSON)); err != nil {
			return err
		}
	}
	return nil
}

// flushPage prints a table and notes on stderr if more rows exist.
func flushPage(w *terminal.Grid, std *streams, cursor string, limit int) error {
	if err := w.Flush(); err != nil {
		return err
	}
	if cursor != "" {
		fmt.Fprintf(std.err, "There are more than %d; raise --limit to see them.\n", limit)
	}
	return nil
}

// printFields prints the members of a JSON object in their order. Further lines of a
// value are indented, so that no value looks like a field.
func printFields(out *terminal.Screen, raw []byte) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil {
		return err
	}
	type field struct{ name, text string }
	var fields []field
	width := 0
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
		name := terminal.Visible(fmt.Sprint(key), "")
		fields = append(fields, field{name, text})
		width = max(width, runewidth.StringWidth(name))
	}
	indent := strings.Repeat(" ", width+terminal.ColumnGap)
	for _, f := range fields {
		text := strings.ReplaceAll(f.text, "\n", "\n"+indent)
		if _, err := fmt.Fprintf(out, "%s%s\n", runewidth.FillRight(f.name, width+terminal.ColumnGap), text); err != nil {
			return err
		}
	}
	return nil
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
