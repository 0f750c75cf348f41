// Package cli is the daybook command line: one file per command, each turning
// flags into a call of package embed or of a server's HTTP interface. It holds
// no logic of its own.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
)

// Exit statuses, the same for every command.
const (
	exitOK          = 0
	exitFailed      = 1 // the script, or a command without a server
	exitUsage       = 2 // the command line, or a request that the server refused
	exitCancelled   = 3
	exitTimedOut    = 4
	exitUnavailable = 5 // no server, or none that can answer now
	exitWrongKey    = 6 // the ledger is intact, but signed with other keys than those given
)

// exitHelp describes them at the end of the help.
const exitHelp = "Exit status: 0 done, 1 failed, 2 mistake in the command line or a file that it names, or request refused by the server, 3 the run was cancelled, 4 the run timed out, " +
	"5 no server answers, or it cannot do this now, 6 the ledger is not signed with the key given (verify)."

// commands is the whole command line, in the order of its help.
type commands struct {
	Config configFlag `help:"Read values for flags that are not given from a JSON file: {\"http-addr\": \"127.0.0.1:9000\"}." placeholder:"FILE" env:"-"`
	Raw    rawFlag    `help:"Write control and hidden characters to a terminal as to a file, without escapes." env:"-"`

	Serve      serveCmd      `cmd:"" help:"Start the server: ledger, runner, HTTP and MCP in one process."`
	MCP        mcpCmd        `cmd:"" name:"mcp" help:"Serve MCP over standard input and output, for agents that start their servers."`
	ACP        acpCmd        `cmd:"" name:"acp" help:"Be an agent of the Agent Client Protocol over standard input and output, for editors that start their agents."`
	Owner      ownerCmd      `cmd:"" hidden:"" help:"Own a data directory for clients on standard input and output."`
	Run        runCmd        `cmd:"" help:"Run JavaScript or TypeScript on a server and wait for its end."`
	Repl       replCmd       `cmd:"" help:"Run what you type, each input on the heap of the one before."`
	Exec       execCmd       `cmd:"" help:"List, inspect, follow and cancel executions."`
	Heap       heapCmd       `cmd:"" help:"List, show, tag and find saved heaps."`
	Session    sessionCmd    `cmd:"" help:"List sessions and read their logs."`
	Context    contextCmd    `cmd:"" help:"Show, set and clear what a session remembers."`
	Events     eventsCmd     `cmd:"" help:"Read and follow the ledger."`
	Volume     volumeCmd     `cmd:"" help:"List, seal and export the volumes that the ledger is kept in."`
	Token      tokenCmd      `cmd:"" help:"Make, list and revoke the tokens of a server that asks for them."`
	NATS       natsCmd       `cmd:"" name:"nats" help:"Manage the credentials of subscribers on NATS."`
	Webhook    webhookCmd    `cmd:"" help:"Register webhooks and see what became of their deliveries."`
	Status     statusCmd     `cmd:"" help:"Tell whether anything is wrong with a server's ledger."`
	Verify     verifyCmd     `cmd:"" help:"Prove that a ledger, or an export of it, is what was signed."`
	Rebuild    rebuildCmd    `cmd:"" help:"Rebuild the projections of a stopped server from its ledger."`
	Version    versionCmd    `cmd:"" help:"Show versions."`
	Completion completionCmd `cmd:"" help:"Print a shell completion script."`

	CompleteSessions completeSessionsCmd `cmd:"" hidden:"" help:"Print session names for completion."`
}

// streams are the standard streams of the process, passed to every command.
type streams struct {
	in       io.Reader
	out, err *screen
}

// exitError ends the process with a status without printing anything more.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// usageError is a mistake in the command line found after parsing.
type usageError struct{ error }

// Main runs the command line and returns the process's exit status.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	std := &streams{in: stdin, out: newScreen(stdout), err: newScreen(stderr)}
	exited := -1
	parser, err := newParser(std, func(code int) { exited = code })
	if err != nil {
		fmt.Fprintln(stderr, "daybook:", err)
		return exitUsage
	}
	if err := checkArguments(args); err != nil {
		return exitStatus(err, std.err)
	}
	switch {
	case len(args) == 0:
		args = []string{"--help"}
	case args[0] == "help":
		args = append(slices.Clone(args[1:]), "--help")
	case args[0] == "--version" && len(args) == 1:
		fmt.Fprintln(std.out, "daybook", version())
		return exitOK
	}
	kctx, err := parser.Parse(args)
	if exited >= 0 { // help was asked for and printed
		return exited
	}
	if err != nil {
		fmt.Fprintf(std.err, "daybook: %s\nRun \"%s --help\" for usage.\n", explained(err), commandOf(err))
		return exitUsage
	}
	preferGiven(kctx)
	// The first signal asks the command to end; a second one is left to the
	// default action, which ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	kctx.BindTo(ctx, (*context.Context)(nil))
	return exitStatus(inFlags(kctx.Run(std), kctx.Selected()), std.err)
}

// commandOf is the command that a mistake was made in, as far as it is known.
func commandOf(err error) string {
	var wrong *kong.ParseError
	if errors.As(err, &wrong) && wrong.Context != nil {
		if cmd := wrong.Context.Selected(); cmd != nil {
			return cmd.FullPath()
		}
	}
	return "daybook"
}

func newParser(std *streams, exit func(int)) (*kong.Kong, error) {
	var cmds commands
	return kong.New(&cmds,
		kong.Name("daybook"),
		kong.Description("Daybook runs JavaScript and TypeScript for AI agents and services, and keeps the book: every run, output line, status change and tag edit is an event in an append-only ledger.\n\nStart with \"daybook serve\", then \"daybook run -e '1 + 1'\" in another terminal.\n\n"+exitHelp),
		kong.Writers(std.out, std.err),
		kong.Exit(exit),
		kong.Bind(std),
		kong.PostBuild(nameVariables),
		kong.Vars{"datadir": defaultDataDir(), "execution_help": executionHelp, "heap_help": heapHelp, "session_help": sessionHelp},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.ValueFormatter(helpOf),
	)
}

// helpOf adds to the help of a flag what it is without being given, which kong
// leaves out where there is a placeholder.
func helpOf(v *kong.Value) string {
	if v.Flag == nil {
		return v.Help
	}
	var notes []string
	if v.HasDefault {
		notes = append(notes, "default "+v.Default)
	}
	for _, env := range v.Flag.Envs {
		notes = append(notes, "$"+env)
	}
	if len(notes) == 0 {
		return v.Help
	}
	return fmt.Sprintf("%s (%s)", v.Help, strings.Join(notes, ", "))
}

func exitStatus(err error, stderr io.Writer) int {
	var code exitError
	var usage usageError
	var refused *serverError
	var silent *unavailableError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &usage):
		fmt.Fprintln(stderr, "daybook:", err)
		return exitUsage
	case errors.As(err, &refused):
		fmt.Fprintln(stderr, "daybook:", err)
		if refused.temporary() {
			return exitUnavailable
		}
		return exitUsage
	case errors.As(err, &silent):
		fmt.Fprintln(stderr, "daybook:", err)
		return exitUnavailable
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(stderr, "daybook: interrupted")
		return exitFailed
	default:
		fmt.Fprintln(stderr, "daybook:", err)
		return exitFailed
	}
}

// defaultDataDir follows the XDG base directory specification.
func defaultDataDir() string {
	if base := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(base) {
		return filepath.Join(base, "daybook")
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".local", "share", "daybook")
	}
	return "daybook-data"
}
