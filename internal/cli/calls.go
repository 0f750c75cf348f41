package cli

import (
	"context"
	"fmt"

	"daybook/events"
	"daybook/internal/cli/terminal"
)

type execCallsCmd struct {
	clientFlags
	oneExecution
}

// Run prints a table of the host calls, or all recorded data of them with --json.
func (c *execCallsCmd) Run(ctx context.Context, std *streams) error {
	id, err := c.execution(ctx, c.ID)
	if err != nil {
		return err
	}
	answer, err := c.api().Calls(ctx, id)
	if err != nil {
		return err
	}
	if c.JSON {
		return std.out.WriteJSON(compact(answer.JSON))
	}
	w := terminal.Table(std.out, "CALL", "TOOL", "OUTCOME", "TOOK", "ARGUMENTS", "RESULT")
	for _, call := range answer.Body.Calls {
		took := "-"
		if call.DurationMS != nil {
			took = fmt.Sprintf("%d ms", *call.DurationMS)
		}
		w.Row(call.Number, call.Server+"."+call.Tool, orDash(call.Outcome), took, shortBody(call.Arguments), shortBody(call.Result))
	}
	return w.Flush()
}

// shortBody returns the beginning of a text in one line. It quotes the text, which a
// script or a tool server wrote.
func shortBody(b *events.Body) string {
	if b == nil {
		return "-"
	}
	text := b.Text
	if b.Blob != nil {
		text = b.Blob.Preview
	}
	const most = 40
	if r := []rune(text); len(r) > most {
		text = string(r[:most]) + "..."
	}
	return fmt.Sprintf("%q", text)
}
