package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/alecthomas/kong"

	"daybook/embed"
	"daybook/internal/cli/background"
	"daybook/internal/cli/settings"
)

// stdioFlags are the flags of the commands that speak a protocol on stdin and stdout.
type stdioFlags struct {
	engineFlags
	IdleExit time.Duration `name:"idle-exit" option:"Owner.IdleExit" help:"Time without a client or a run after which the background process exits; 0 is unlimited." default:"5m" placeholder:"DURATION"`
}

// Validate checks the flags by the rules of embed.Options, also if a running owner does
// not use them. It does not read the files of --mcp-config and --fetch-header-config.
func (f stdioFlags) Validate(kctx *kong.Context) error {
	opts := f.options(io.Discard)
	var err error
	if opts.Tools.Servers, err = embed.ReadMCPServers(f.MCPServers, ""); err != nil {
		return flagError{error: err}
	}
	if opts.Fetch.Headers, err = embed.ReadFetchHeaders(f.FetchHeaders, ""); err != nil {
		return flagError{error: err}
	}
	return checkOptions(kctx, opts)
}

func (f stdioFlags) options(log io.Writer) embed.Options {
	opts := f.engineFlags.options(log)
	opts.Owner.IdleExit = zeroIsNone(f.IdleExit)
	return opts
}

// ownerHelp is the part of the help that these commands share.
const ownerHelp = "One process owns a data directory. This command passes messages to the owner, and starts one in the background if there is none. " +
	"If another process owns the directory, such as a server, the options of that process apply, and of this command only --data-dir%s.\n\n"

// attach passes messages between the standard streams and the owner of the data
// directory.
func (f stdioFlags) attach(ctx context.Context, kctx *kong.Context, std *streams, acp bool) error {
	std.serves = true
	dir, err := filepath.Abs(f.DataDir)
	if err != nil {
		return fmt.Errorf("resolve --data-dir: %w", err)
	}
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return usageError{fmt.Errorf("--data-dir %s is a file; name a directory", dir)}
	}
	changed := settings.Changed(kctx)
	notice := func(text string) { fmt.Fprintln(std.err, "daybook:", text) }
	return dataDirError(embed.Attach(ctx, embed.Client{
		DataDir: dir, ACP: acp, SessionID: f.SessionID, Version: version(), Settings: changed, Notice: notice,
		StartOwner: func(ctx context.Context) error {
			err := background.Start(ctx, dir, changed, notice)
			if _, wrong := errors.AsType[background.OptionError](err); wrong {
				return usageError{err}
			}
			return err
		},
	}, std.in, std.out), dir)
}

// ownerCmd is the background process that owns a data directory for attached clients.
type ownerCmd struct {
	stdioFlags
	ReportFD int `name:"report-fd" hidden:"" env:"-"`
}

// Run serves until a signal, a takeover by another process, or the idle time ends it.
func (c *ownerCmd) Run(ctx context.Context, kctx *kong.Context, _ *streams) error {
	report := background.ReportTo(c.ReportFD)
	err := c.serve(ctx, settings.Changed(kctx), report)
	if err != nil {
		_, usage := errors.AsType[usageError](err)
		report(background.Report{Locked: errors.Is(err, embed.ErrLocked), Stopped: ctx.Err() != nil, Usage: usage, Error: err.Error()})
	}
	return err
}

func (c *ownerCmd) serve(ctx context.Context, changed []string, report func(background.Report)) error {
	log, err := background.OpenLog(c.DataDir)
	if err != nil {
		return dataDirError(err, c.DataDir)
	}
	defer log.Close()
	opts := c.options(log)
	opts.MCP.SessionID = "" // each client names its own session
	opts.Owner.Background, opts.Owner.Settings = true, changed
	if err := c.readServers(&opts); err != nil {
		return err
	}
	limitMemory(opts.Logger)
	opts.Resources.LimitMemory = true
	book, err := embed.Start(ctx, opts)
	if err != nil {
		return optionError(dataDirError(err, c.DataDir))
	}
	ready := background.Report{Ready: true}
	if headline, findings := damageNotice(book); headline != "" {
		ready.Notes = append([]string{headline + "; run \"daybook status\" for details"}, findings...)
	}
	report(ready)
	select {
	case <-ctx.Done():
	case <-book.Released():
		opts.Logger.Info("the data directory is released", "why", book.ReleaseReason())
	case <-book.Done():
	}
	return errors.Join(book.Err(), book.Close())
}
