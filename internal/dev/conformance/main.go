// Conformance serves MCP to the official conformance suite:
//
//	go run ./internal/dev/conformance -data-dir DIR
//
// The suite expects tools, prompts and resources with fixed names and answers on the
// server under test. This server has them in addition to the product's own tools, so the
// suite exercises the handlers, guards and middleware of the product. The server listens
// on a free port of the loopback interface, prints the address and ends on SIGTERM. It
// tests nothing itself; see .ci/conformance.
//
// The other files, in reading order:
//
//   - fixtures.go: mounts the fixtures on the server; tools that the suite calls as tasks
//   - contents.go: tools that answer with each kind of content; resources and prompts
//   - streaming.go: tools that send messages before they answer
//   - rounds.go: tools that answer by asking for input first
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"daybook/embed"
	"daybook/mcp"
)

func main() {
	dir := flag.String("data-dir", "", "directory that holds the ledger")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *dir, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

// serve serves until ctx is done.
func serve(ctx context.Context, dir string, out io.Writer) error {
	book, err := embed.Start(ctx, embed.Options{
		DataDir: dir,
		HTTP:    embed.HTTPOptions{Addr: "127.0.0.1:0"},
		MCP:     embed.MCPOptions{Fixtures: &mcp.Fixtures{Mount: mount, Scheme: scheme, Complete: complete, Scripts: scripts()}},
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "mcp %s/mcp\nReady\n", book.URL())
	select {
	case <-ctx.Done():
	case <-book.Done():
	}
	return errors.Join(book.Err(), book.Close())
}
