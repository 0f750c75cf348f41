package cli

import (
	"context"

	"daybook/embed"
)

type acpCmd struct{ engineFlags }

// Help is shown by "daybook acp --help".
func (c *acpCmd) Help() string {
	return "Prompts are JavaScript or TypeScript, run in the heap of their session. Where another process uses the data directory already, such as a server, this one works on the same ledger through it; " +
		"then only --data-dir has an effect.\n\n" +
		"For an editor's configuration: {\"command\": \"daybook\", \"args\": [\"acp\"]}."
}

// Run serves the Agent Client Protocol on the standard streams, with a ledger of
// its own or through the process that holds the data directory already.
func (c *acpCmd) Run(ctx context.Context, std *streams) error {
	return embed.ServeACPStdio(ctx, c.options(std.err), std.in, std.out)
}
