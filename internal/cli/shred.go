package cli

import (
	"context"
	"fmt"
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
	if err := (oneSession{c.Name}).check(); err != nil {
		return err
	}
	answer, err := c.api().Shred(ctx, c.Name, c.Force)
	if err != nil {
		return err
	}
	if c.JSON {
		return std.out.writeJSON(compact(answer.JSON))
	}
	done := answer.Body
	fmt.Fprintf(std.out, "Shredded the content of %s and %s on %s, by event %d.\n", countNoun(done.Executions, "run"), countNoun(done.Heaps, "heap"), done.At, done.Seq)
	if done.Kept > 0 {
		fmt.Fprintf(std.err, "The content of %s stays: the server ran without --erasable-sessions then.\n", countNoun(done.Kept, "earlier run"))
	}
	return nil
}
