package cli

import (
	"context"
	"fmt"

	"daybook/internal/web/client"
)

type sessionOpenCmd struct {
	clientFlags
	Intent string   `arg:"" help:"Purpose of the session; the same text opens the same session." placeholder:"INTENT"`
	Seed   []string `help:"APIs for code: an id such as builtin.console, or a source such as builtin; may be repeated." default:"builtin" placeholder:"ID"`
}

// Run prints the id of the session to stdout, for "daybook run --in", and the
// declarations that are new to the session to stderr.
func (c *sessionOpenCmd) Run(ctx context.Context, std *streams) error {
	answer, err := c.api().OpenSession(ctx, client.Opening{Intent: c.Intent, Seeds: c.Seed})
	if err != nil {
		return err
	}
	if c.JSON {
		return std.out.printJSON(answer.JSON)
	}
	opened := answer.Body
	if opened.StateLost && opened.Broken != nil {
		std.err.printf("The state of this session could not be restored (%s): it starts from a fresh isolate.\n", *opened.Broken)
	}
	fmt.Fprint(std.err, opened.Declarations)
	fmt.Fprintln(std.out, opened.SessionID)
	return nil
}
