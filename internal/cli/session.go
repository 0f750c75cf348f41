package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
)

type sessionCmd struct {
	List   sessionListCmd   `cmd:"" help:"List the names runs were logged under."`
	Log    sessionLogCmd    `cmd:"" help:"Print the runs logged under a name, oldest first."`
	Shred  sessionShredCmd  `cmd:"" help:"Erase the content of the runs logged under a name, for good."`
	Open   sessionOpenCmd   `cmd:"" help:"Open a session whose runs share state, and print its id."`
	Replay sessionReplayCmd `cmd:"" help:"Print or publish the events of a session once more, at their original speed or faster."`
}

type sessionListCmd struct{ clientFlags }

// Run prints one session name a line.
func (c *sessionListCmd) Run(ctx context.Context, std *streams) error {
	return c.show(ctx, std.out, "/api/sessions", func(raw []byte) error {
		var answer struct {
			Sessions []string `json:"sessions"`
		}
		if err := json.Unmarshal(raw, &answer); err != nil {
			return err
		}
		for _, name := range answer.Sessions {
			fmt.Fprintln(std.out, name)
		}
		return nil
	})
}

type sessionLogCmd struct {
	clientFlags
	Name string `arg:"" help:"Session name." placeholder:"NAME"`
}

// Run prints a session's entries in order. A name without any is an error.
func (c *sessionLogCmd) Run(ctx context.Context, std *streams) error {
	var answer struct {
		Entries []struct {
			Index       int64   `json:"index"`
			ExecutionID string  `json:"execution_id"`
			Status      string  `json:"status"`
			OutputHeap  *string `json:"output_heap"`
			Code        string  `json:"code"`
			Timestamp   string  `json:"timestamp"`
		} `json:"entries"`
	}
	err := c.show(ctx, std.out, "/api/sessions/"+url.PathEscape(c.Name)+"/entries", func(raw []byte) error {
		if err := json.Unmarshal(raw, &answer); err != nil || len(answer.Entries) == 0 {
			return err
		}
		w := table(std.out, "INDEX", "TIME", "STATUS", "HEAP", "CODE")
		for _, e := range answer.Entries {
			heap := orDash(e.OutputHeap)
			fmt.Fprintf(w, "%d\t%s\t%s\t%.12s\t%s\n", e.Index, e.Timestamp, e.Status, heap, oneLine(e.Code, 60))
		}
		return w.Flush()
	})
	if err != nil || c.JSON || len(answer.Entries) > 0 {
		return err
	}
	// To a program an empty log is an answer; here it is mostly a misspelt name.
	return usageError{fmt.Errorf("no run that has ended is logged under %q; \"daybook session list\" names the sessions", c.Name)}
}
