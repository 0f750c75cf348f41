package acp_test

import (
	"context"
	"os"

	"daybook/embed"
)

// serveAgent makes the test binary an agent on its standard streams.
func serveAgent(dir string) {
	err := embed.ServeACPStdio(context.Background(), embed.Options{DataDir: dir, NoSync: true, DrainWait: -1}, os.Stdin, os.Stdout)
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
}
