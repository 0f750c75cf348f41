package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/alecthomas/kong"

	"daybook/embed"
	"daybook/internal/cli/settings"
	"daybook/internal/cli/terminal"
	"daybook/internal/redact"
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
	var err, httpErr error
	opts.Access, err = c.accessFlags.options()
	opts.HTTP, httpErr = c.httpFlags.options()
	opts.NATS = c.natsFlags.options(len(c.Auth) > 0)
	opts.Webhooks = c.webhookFlags.options()
	opts.Content = c.contentFlags.options()
	opts.Storage = c.storageFlags.options()
	return opts, errors.Join(err, httpErr, checkPort("--nats-addr", opts.NATS.Addr, "4222"))
}

// Run takes over from a background owner and serves until a signal drains it. A second
// signal ends the process at once. Nothing acknowledged is lost in either case.
func (c *serveCmd) Run(ctx context.Context, kctx *kong.Context, std *streams) error {
	std.serves = true
	opts, err := c.options(std.err)
	if err != nil {
		return usageError{err}
	}
	opts.Owner.TakeOver, opts.Owner.Settings = true, settings.ChangedShared(kctx)
	opts.Owner.Notice = func(text string) { fmt.Fprintln(std.err, "daybook:", text) }
	if err := c.readServers(&opts); err != nil {
		return err
	}
	limitMemory(opts.Logger)
	opts.Resources.LimitMemory = true
	book, err := embed.Start(ctx, opts)
	if err != nil {
		return optionError(dataDirError(err, c.DataDir))
	}
	printBanner(std.out, book, opts)
	headline, findings := damageNotice(book)
	if headline != "" {
		fmt.Fprintf(std.out, "%s. Run \"daybook status\" for details.\n", headline)
	}
	for _, f := range findings {
		std.err.Printf("daybook: %s\n", f)
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

// printBanner prints the addresses of a server. It names a busy default port, because
// clients look for the server there. It prints no secret: terminals are shared and
// logged.
func printBanner(out *terminal.Screen, book *embed.Daybook, opts embed.Options) {
	out.Printf("Daybook %s\n", version())
	out.Printf("  data     %s\n", book.DataDir())
	out.Printf("  http     %s   (REST at /api, documentation at /docs)\n", book.URL())
	out.Printf("  mcp      %s/mcp\n", book.URL())
	switch at := book.NATSURL(); {
	case at == "":
	case opts.NATS.URL != "":
		out.Printf("  events   %s\n", withoutCredentials(at))
	case book.SubscriberCredentials() == "":
		out.Printf("  events   %s   (NATS, to read; \"daybook nats credentials\" creates and lists credentials)\n", at)
	default:
		out.Printf("  events   %s   (NATS, to read: nats --server %s --creds %s sub 'events.default.>')\n", at, at, book.SubscriberCredentials())
	}
	if at := book.URL(); opts.HTTP.Fallback && at != "" && hostOf(at) != opts.HTTP.Addr {
		out.Printf("Another program uses %s, the default HTTP address: clients need --server %s.\n", opts.HTTP.Addr, at)
	}
	if at := book.NATSURL(); opts.NATS.Fallback && at != "" && hostOf(at) != opts.NATS.Addr {
		out.Printf("Another program uses %s, the default NATS address: subscribers need %s.\n", opts.NATS.Addr, at)
	}
}

func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Host
}

// withoutCredentials returns addresses of NATS servers, separated by commas, without the
// users, passwords, tokens and parameters in them.
func withoutCredentials(addresses string) string {
	shown := strings.Split(addresses, ",")
	for i, one := range shown {
		shown[i] = redact.Address(strings.TrimSpace(one))
	}
	return strings.Join(shown, ",")
}

// serverShare is the part of the machine's memory that the Go runtime of a server may
// use. Workers, SQLite and the page cache need the rest.
const serverShare = 0.5

// minMemoryLimit is the smallest limit, in bytes. With less, the garbage collector
// would run all the time.
const minMemoryLimit = 256 << 20

// limitMemory sets the memory limit of the Go runtime from the cgroup of the process,
// or from the memory of the machine if the cgroup has no limit. It keeps a limit from
// the environment (GOMEMLIMIT) unless that is empty. It logs the limit once.
func limitMemory(log *slog.Logger) {
	if limit := os.Getenv("GOMEMLIMIT"); limit != "" {
		log.Info("the memory limit of the Go runtime is set by GOMEMLIMIT", "limit", limit)
		return
	}
	limit, err := memlimit.Set(
		memlimit.WithProvider(memlimit.ApplyFallback(memlimit.FromCgroup, memlimit.FromSystem)),
		memlimit.WithRatio(serverShare), memlimit.WithMin(minMemoryLimit),
	)
	switch {
	case err != nil:
		log.Warn("the memory limit of the Go runtime is not set: the memory of the machine is not known; set GOMEMLIMIT", "err", err)
	case limit == math.MaxInt64:
		log.Info("the memory limit of the Go runtime is not set: neither the cgroup nor the machine limits the memory")
	default:
		log.Info("set the memory limit of the Go runtime", "bytes", limit)
	}
}
