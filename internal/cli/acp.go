package cli

import (
	"context"
	"fmt"

	"github.com/alecthomas/kong"
)

type acpCmd struct{ stdioFlags }

// Help is shown by "daybook acp --help".
func (c *acpCmd) Help() string {
	return "Prompts are JavaScript or TypeScript and run on the heap of their session.\n\n" + fmt.Sprintf(ownerHelp, "") +
		"For an editor's configuration: {\"command\": \"daybook\", \"args\": [\"acp\"]}."
}

// Run serves the Agent Client Protocol on the standard streams.
func (c *acpCmd) Run(ctx context.Context, kctx *kong.Context, std *streams) error {
	return c.attach(ctx, kctx, std, true)
}
