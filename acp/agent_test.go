package acp_test

import (
	"context"
	"errors"
	"os"

	"daybook/embed"
)

// serveAgent runs the test binary as an agent on its standard streams, with its own
// ledger or as a client of the process that owns the directory.
func serveAgent(dir string) {
	ctx := context.Background()
	book, err := embed.Start(ctx, embed.Options{DataDir: dir, NATS: embed.NATSOptions{NoSync: true}, Runs: embed.RunOptions{DrainWait: -1}})
	switch {
	case err == nil:
		err = errors.Join(book.ServeACP(ctx, os.Stdin, os.Stdout), book.Close())
	case errors.Is(err, embed.ErrLocked):
		err = embed.Attach(ctx, embed.Client{DataDir: dir, ACP: true}, os.Stdin, os.Stdout)
	}
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
}
