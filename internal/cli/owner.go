package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"daybook/embed"
	"daybook/internal/cli/owner"
)

// stdioFlags are the flags of the commands that speak a protocol on stdin and stdout.
type stdioFlags struct {
	engineFlags
	IdleExit time.Duration `name:"idle-exit" option:"Owner.IdleExit" help:"Time without a client or a run after which the background process exits; 0 is unlimited." default:"5m" placeholder:"DURATION"`
}

// Validate checks the flags by the rules of embed.Options, also if a running owner does
// not use them. It does not read the file of --mcp-config.
func (f stdioFlags) Validate(kctx *kong.Context) error {
	opts := f.options(io.Discard)
	var err error
	if opts.Tools.Servers, err = embed.ReadMCPServers(f.MCPServers, ""); err != nil {
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
	dir, err := filepath.Abs(f.DataDir)
	if err != nil {
		return fmt.Errorf("resolve --data-dir: %w", err)
	}
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return usageError{fmt.Errorf("--data-dir %s is a file; name a directory", dir)}
	}
	settings := settingsOf(kctx)
	notice := func(text string) { fmt.Fprintln(std.err, "daybook:", text) }
	return embed.Attach(ctx, embed.Client{
		DataDir: dir, ACP: acp, SessionID: f.SessionID, Version: version(), Settings: settings, Notice: notice,
		StartOwner: func(ctx context.Context) error {
			err := owner.Start(ctx, dir, settings, notice)
			if _, wrong := errors.AsType[owner.OptionError](err); wrong {
				return usageError{err}
			}
			return err
		},
	}, std.in, std.out)
}

// settingsOf returns the flags of a command whose values differ from the defaults, as
// --name=value. It omits the flags that belong to one client.
func settingsOf(kctx *kong.Context) (list []string) {
	for _, f := range kctx.Selected().Flags {
		if slices.Contains([]string{"data-dir", "session-id", "report-fd"}, f.Name) {
			continue
		}
		for _, text := range valuesOf(f.Target) {
			if text == f.Default || text == "false" && f.Default == "" {
				continue
			}
			if d, ok := f.Target.Interface().(time.Duration); ok {
				if usual, err := time.ParseDuration(f.Default); err == nil && usual == d {
					continue
				}
			}
			if f.Name == "mcp-config" || f.Name == "audit-key" {
				if abs, err := filepath.Abs(text); err == nil {
					text = abs
				}
			}
			list = append(list, "--"+f.Name+"="+text)
		}
	}
	return list
}

// sharedSettingsOf returns the settings of a server that "daybook mcp" has too.
func sharedSettingsOf(kctx *kong.Context) []string {
	shared := map[string]bool{}
	for _, command := range kctx.Model.Children {
		if command.Name == "mcp" {
			collectFlags(command, shared)
		}
	}
	return slices.DeleteFunc(settingsOf(kctx), func(setting string) bool {
		name, _, _ := strings.Cut(strings.TrimPrefix(setting, "--"), "=")
		return !shared[name]
	})
}

// valuesOf returns the values of a flag as texts, or nil if it is not set.
func valuesOf(v reflect.Value) (list []string) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return valuesOf(v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			list = append(list, valuesOf(v.Index(i))...)
		}
		return list
	case reflect.Map: // one text, as on the command line
		for _, key := range v.MapKeys() {
			list = append(list, fmt.Sprintf("%v=%v", key, v.MapIndex(key)))
		}
		if len(list) == 0 {
			return nil
		}
		slices.Sort(list)
		return []string{strings.Join(list, ",")}
	default:
		if text := fmt.Sprint(v.Interface()); text != "" {
			return []string{text}
		}
		return nil
	}
}

// ownerCmd is the background process that owns a data directory for attached clients.
type ownerCmd struct {
	stdioFlags
	ReportFD int `name:"report-fd" hidden:"" env:"-"`
}

// Run serves until a signal, a takeover by another process, or the idle time ends it.
func (c *ownerCmd) Run(ctx context.Context, kctx *kong.Context, _ *streams) error {
	report := owner.ReportTo(c.ReportFD)
	err := c.serve(ctx, settingsOf(kctx), report)
	if err != nil {
		_, usage := errors.AsType[usageError](err)
		report(owner.Report{Locked: errors.Is(err, embed.ErrLocked), Stopped: ctx.Err() != nil, Usage: usage, Error: err.Error()})
	}
	return err
}

func (c *ownerCmd) serve(ctx context.Context, settings []string, report func(owner.Report)) error {
	log, err := owner.OpenLog(c.DataDir)
	if err != nil {
		return err
	}
	defer log.Close()
	opts := c.options(log)
	opts.MCP.SessionID = "" // each client names its own session
	opts.Owner.Background, opts.Owner.Settings = true, settings
	if err := c.readServers(&opts); err != nil {
		return err
	}
	limitMemory(opts.Logger)
	opts.Resources.LimitMemory = true
	book, err := embed.Start(ctx, opts)
	if err != nil {
		return optionError(err)
	}
	ready := owner.Report{Ready: true}
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
