package cli

import (
	"context"
	"fmt"

	"daybook/events"
	"daybook/internal/cli/terminal"
	"daybook/internal/web/client"
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
		tool, arguments, result := call.Server+"."+call.Tool, shortBody(call.Arguments), shortBody(call.Result)
		if call.Server == events.FetchServer {
			tool = call.Tool
			if f := call.Fetch; f != nil && len(f.Requests) > 0 {
				arguments, result = describeFetch(f, arguments, result)
			}
		}
		w.Row(call.Number, tool, orDash(call.Outcome), took, arguments, result)
	}
	return w.Flush()
}

// describeFetch returns the first request of a fetch, and its response. arguments and result
// are shown where there are none.
func describeFetch(f *client.Fetch, arguments, result string) (request, response string) {
	first, last := f.Requests[0], f.Requests[len(f.Requests)-1]
	if request = arguments; first.URL != "" {
		request = first.Method + " " + shortText(first.URL)
	}
	switch {
	case !last.Allowed:
		response = "denied by " + terminal.OneLine(last.Rule, maxDiffColumn)
	case last.Status == 0:
		response = result
	case f.ResponseBody != nil:
		response = fmt.Sprintf("%d, %s", last.Status, terminal.CountNoun(f.ResponseBody.Size, "byte"))
	default:
		response = fmt.Sprint(last.Status)
	}
	if n := len(f.Requests) - 1; n > 0 {
		response += ", after " + terminal.CountNoun(n, "redirect")
	}
	return request, response
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
	return shortText(text)
}

// shortText returns the beginning of a text, quoted.
func shortText(text string) string {
	const most = 40
	if r := []rune(text); len(r) > most {
		text = string(r[:most]) + "..."
	}
	return fmt.Sprintf("%q", text)
}
