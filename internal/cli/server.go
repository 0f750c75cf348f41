package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"daybook/embed"
)

type serveCmd struct {
	engineFlags
	accessFlags
	httpFlags
	natsFlags
	webhookFlags
	contentFlags
	storageFlags
}

// Validate checks the flags by the rules of embed.Options.
func (c *serveCmd) Validate(kctx *kong.Context) error {
	opts, err := c.options(io.Discard)
	if err != nil {
		return flagError{error: err}
	}
	return checkOptions(kctx, opts)
}

func (c *serveCmd) options(log io.Writer) (embed.Options, error) {
	opts := c.engineFlags.options(log)
	var err error
	opts.Access, err = c.accessFlags.options()
	opts.HTTP = c.httpFlags.options()
	opts.NATS = c.natsFlags.options(len(c.Auth) > 0)
	opts.Webhooks = c.webhookFlags.options()
	opts.Content = c.contentFlags.options()
	opts.Storage = c.storageFlags.options()
	return opts, err
}

// Run takes over from a background owner and serves until a signal drains it. A second
// signal ends the process at once. Nothing acknowledged is lost in either case.
func (c *serveCmd) Run(ctx context.Context, kctx *kong.Context, std *streams) error {
	opts, err := c.options(std.err)
	if err != nil {
		return usageError{err}
	}
	opts.Owner.TakeOver, opts.Owner.Settings = true, sharedSettingsOf(kctx)
	opts.Owner.Notice = func(text string) { fmt.Fprintln(std.err, "daybook:", text) }
	if err := c.readServers(&opts); err != nil {
		return err
	}
	limitMemory(opts.Logger)
	opts.Resources.LimitMemory = true
	book, err := embed.Start(ctx, opts)
	if err != nil {
		return optionError(err)
	}
	printBanner(std.out, book, opts)
	headline, findings := damageNotice(book)
	if headline != "" {
		fmt.Fprintf(std.out, "%s. Run \"daybook status\" for details.\n", headline)
	}
	for _, f := range findings {
		std.err.printf("daybook: %s\n", f)
	}
	if err := book.Unwritable(); err != nil && headline == "" {
		fmt.Fprintf(std.out, "READ-ONLY for now: %v\n", err)
	}
	fmt.Fprintln(std.out, "Ready. Press Ctrl-C to stop.")
	select {
	case <-ctx.Done():
		again := make(chan os.Signal, 1)
		signal.Notify(again, os.Interrupt, syscall.SIGTERM)
		defer signal.Stop(again)
		fmt.Fprintln(std.err, "daybook: waiting for running scripts; press Ctrl-C again to stop at once")
		if n := book.Clients(); n > 0 {
			fmt.Fprintf(std.err, "daybook: attached mcp and acp processes: %d; they continue with an owner in the background\n", n)
		}
		closed := make(chan error, 1)
		go func() { closed <- book.Close() }()
		select {
		case err := <-closed:
			return err
		case <-again:
			return errors.New("stopped before draining ended; unfinished runs continue at the next start")
		}
	case <-book.Done():
		return errors.Join(book.Err(), book.Close())
	}
}

type mcpCmd struct{ stdioFlags }

// Help is shown by "daybook mcp --help".
func (c *mcpCmd) Help() string {
	return fmt.Sprintf(ownerHelp, " and --session-id") + "For a client's configuration: {\"command\": \"daybook\", \"args\": [\"mcp\"]}."
}

// Run serves MCP on the standard streams.
func (c *mcpCmd) Run(ctx context.Context, kctx *kong.Context, std *streams) error {
	return c.attach(ctx, kctx, std, false)
}

type rebuildCmd struct {
	DataDir     string `help:"Directory of the ledger." default:"${datadir}" placeholder:"DIR"`
	NATSURL     string `name:"nats-url" help:"URL of the outside NATS server or cluster that stores the ledger." placeholder:"URL"`
	KeyDir      string `name:"key-dir" help:"Directory of the content keys, if it moved since the server ran." placeholder:"DIR"`
	WithoutKeys bool   `name:"without-keys" help:"Omit content whose keys are lost. Without it the rebuild is refused, because the projections may have the only copy of the content."`
}

// Run rebuilds the projections beside the old ones and replaces them. It takes over
// from a background owner; attached clients start the next one.
func (c *rebuildCmd) Run(ctx context.Context, std *streams) error {
	start := time.Now()
	p := newProgress(std.err, "rebuilt")
	n, err := embed.Rebuild(ctx, embed.Options{
		DataDir: c.DataDir, NATS: embed.NATSOptions{URL: c.NATSURL}, Owner: embed.OwnerOptions{TakeOver: true, Notice: func(text string) { fmt.Fprintln(std.err, "daybook:", text) }}, Content: embed.ContentOptions{KeyDir: c.KeyDir, WithoutKeys: c.WithoutKeys}, Progress: p.show,
	})
	p.clear()
	if err != nil {
		return optionError(err)
	}
	fmt.Fprintf(std.out, "Rebuilt the projections from %s in %s.\n", countNoun(n, "event"), time.Since(start).Round(time.Millisecond))
	return nil
}
