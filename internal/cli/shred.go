package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

type sessionShredCmd struct {
	clientFlags
	Name  string `arg:"" help:"Name of the session." placeholder:"NAME"`
	Force bool   `help:"Also delete heaps that runs outside of the session use."`
}

// Help is shown by "daybook session shred --help".
func (c *sessionShredCmd) Help() string {
	return "Destroys the content keys of the session: the source, output, results, errors, tags and heaps of its runs become unreadable. This cannot be undone. " +
		"The ledger still records that the runs existed, when, and how they ended, and every proof remains valid. Only runs recorded while the server ran with --erasable-sessions can be shredded."
}

// Run shreds the content of a session and prints a summary.
func (c *sessionShredCmd) Run(ctx context.Context, std *streams) error {
	path, err := oneSession{c.Name}.path()
	if err != nil {
		return err
	}
	path += "/content"
	if c.Force {
		path += query("force", "true")
	}
	var raw json.RawMessage
	if err := c.call(ctx, http.MethodDelete, path, nil, &raw); err != nil {
		return err
	}
	if c.JSON {
		return std.out.writeJSON(compact(raw))
	}
	var done struct {
		Seq                     uint64
		At                      string
		Executions, Heaps, Kept int
	}
	if err := json.Unmarshal(raw, &done); err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	fmt.Fprintf(std.out, "Shredded the content of %s and %s on %s, by event %d.\n", countNoun(done.Executions, "run"), countNoun(done.Heaps, "heap"), done.At, done.Seq)
	if done.Kept > 0 {
		fmt.Fprintf(std.err, "The content of %s stays: the server ran without --erasable-sessions then.\n", countNoun(done.Kept, "earlier run"))
	}
	return nil
}
