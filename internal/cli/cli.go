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

	"daybook/embed"
	"daybook/internal/cli/settings"
	"daybook/internal/cli/terminal"
	"daybook/internal/web/client"
)

// Exit statuses of every command.
const (
	exitOK          = 0
	exitFailed      = 1 // the script failed, or the command failed for a reason not listed here
	exitUsage       = 2 // a mistake in the command line, or a request that the server refused
	exitCancelled   = 3
	exitTimedOut    = 4
	exitUnavailable = 5 // no server answered, or the server cannot answer now
	// The verdicts of verify besides INTACT (exitOK) and NOT INTACT (exitFailed).
	exitWrongKey        = 6
	exitUnauthenticated = 7
	exitIntactUpTo      = 8
	exitForked          = 9
	exitRolledBack      = 10
)

// exitHelp lists the exit statuses at the end of the help.
const exitHelp = "Exit status: 0 success, 1 failure, 2 mistake in the command line or a file that it names, or request refused by the server, 3 run cancelled, 4 run timed out, " +
	"5 server unreachable or temporarily unavailable, 6 to 10 verdicts of verify (see \"daybook verify --help\")."

// commands is the complete command line. The help lists the commands in this order.
type commands struct {
	Config settings.ConfigFlag `help:"JSON file with values for flags that are not given: {\"http-addr\": \"127.0.0.1:9000\"}." placeholder:"FILE" env:"-"`
	Raw    rawFlag             `help:"Write control and hidden characters to a terminal without escapes, as to a file." env:"-"`

	Serve      serveCmd      `cmd:"" help:"Start the server: ledger, runner, HTTP and MCP."`
	MCP        mcpCmd        `cmd:"" name:"mcp" help:"Serve MCP on stdin and stdout."`
	ACP        acpCmd        `cmd:"" name:"acp" help:"Serve the Agent Client Protocol on stdin and stdout."`
	Owner      ownerCmd      `cmd:"" hidden:"" help:"Own a data directory for clients on stdin and stdout."`
	Run        runCmd        `cmd:"" help:"Run JavaScript or TypeScript and wait for the result."`
	Repl       replCmd       `cmd:"" help:"Run each typed input on the heap of the previous one."`
	Exec       execCmd       `cmd:"" help:"List, show, follow and cancel executions."`
	Heap       heapCmd       `cmd:"" help:"List, show, tag, find and collect heaps."`
	Session    sessionCmd    `cmd:"" help:"List, show, open, reset, replay and shred sessions."`
	Context    contextCmd    `cmd:"" help:"Show, set and clear the conversation context of a session."`
	Events     eventsCmd     `cmd:"" help:"Print, follow and export events of the ledger."`
	Volume     volumeCmd     `cmd:"" help:"List, seal, export and remove volumes of the ledger."`
	Key        keyCmd        `cmd:"" help:"List, introduce, revoke and rotate the keys that sign the ledger."`
	Token      tokenCmd      `cmd:"" help:"Create, list and revoke access tokens."`
	NATS       natsCmd       `cmd:"" name:"nats" help:"Manage credentials of NATS subscribers."`
	Module     moduleCmd     `cmd:"" help:"Admit, list and remove packages that scripts can import."`
	Webhook    webhookCmd    `cmd:"" help:"Manage webhooks and their deliveries."`
	Status     statusCmd     `cmd:"" help:"Show whether a server's ledger is damaged."`
	Verify     verifyCmd     `cmd:"" help:"Verify a ledger or export against its signed checkpoints."`
	Replay     replayCmd     `cmd:"" help:"Execute recorded runs again, and compare them with the record."`
	Monitor    monitorCmd    `cmd:"" help:"Watch the proof of a server, and alert when it does not hold."`
	Policy     policyCmd     `cmd:"" help:"Test the policies of a server."`
	Witness    witnessCmd    `cmd:"" help:"Cosign the checkpoints of ledgers, as an independent witness."`
	Rebuild    rebuildCmd    `cmd:"" help:"Rebuild a stopped server's projections from its ledger."`
	Version    versionCmd    `cmd:"" help:"Show versions."`
	Completion completionCmd `cmd:"" help:"Print a shell completion script."`

	CompleteSessions completeSessionsCmd `cmd:"" hidden:"" help:"Print session names for completion."`
}

// streams are the standard streams of the process. Every command receives them.
type streams struct {
	in       io.Reader
	out, err *terminal.Screen
	// serves is set by serve, mcp, acp and witness, which serve until they are stopped: their exit
	// status does not depend on their output.
	serves bool
}

// rawFlag turns the escapes on a terminal off.
type rawFlag bool

// AfterApply sets the outputs.
func (r rawFlag) AfterApply(std *streams) error {
	std.out.Raw, std.err.Raw = bool(r), bool(r)
	return nil
}

// exitError ends the process with a status and prints nothing.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// usageError is a mistake in the command line that is found after parsing.
type usageError struct{ error }

// Main runs the command line args, without the name of the program, and returns the
// exit status of the process. It blocks until the command ends; SIGINT and SIGTERM
// cancel the command.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	std := &streams{in: stdin, out: terminal.New(stdout), err: terminal.New(stderr)}
	status := runCommand(args, std)
	if err := std.out.Err(); err != nil && status == exitOK && !std.serves {
		fmt.Fprintln(std.err, "daybook: write the output:", err)
		return exitFailed
	}
	return status
}

// runCommand parses and runs a command line, and returns the exit status.
func runCommand(args []string, std *streams) int {
	exited := -1
	parser, err := newParser(std, func(code int) { exited = code })
	if err != nil {
		fmt.Fprintln(std.err, "daybook:", err)
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
	if exited >= 0 { // the help was requested and printed
		return exited
	}
	if std.out.Err() != nil { // the help was requested and could not be printed, which Main reports
		return exitOK
	}
	if err != nil {
		text := explainParseError(err)
		if wrong, ok := errors.AsType[*kong.ParseError](err); ok {
			text = settings.NameSources(text, wrong.Context)
		}
		fmt.Fprintf(std.err, "daybook: %s\nRun \"%s --help\" for usage.\n", text, commandOf(err))
		return exitUsage
	}
	settings.PreferFlags(kctx)
	// The first signal asks the command to end. The second one has the default action,
	// which ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	kctx.BindTo(ctx, (*context.Context)(nil))
	return exitStatus(withSources(withFlagNames(kctx.Run(std), kctx.Selected()), kctx), std.err)
}

// commandOf returns the command with the mistake, or "daybook" if it is not known.
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
		kong.Description("Daybook runs JavaScript and TypeScript for AI agents and services, and records every run, output line, status change and tag edit as an event in an append-only ledger.\n\nStart with \"daybook serve\", then \"daybook run -e '1 + 1'\" in another terminal.\n\n"+exitHelp),
		kong.Writers(std.out, std.err),
		kong.Exit(exit),
		kong.Bind(std),
		kong.PostBuild(orderFlags),
		kong.PostBuild(settings.NameVariables),
		kong.Vars{"datadir": defaultDataDir(), "execution_help": executionHelp, "heap_help": heapHelp, "session_help": sessionHelp},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.ValueFormatter(helpOf),
	)
}

// helpOf adds the default and the environment variable to the help of a flag. Kong
// omits the default if the flag has a placeholder.
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
	var refused *client.Error
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
		if refused.IsTemporary() {
			return exitUnavailable
		}
		return exitUsage
	case isUnavailable(err):
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

// isUnavailable reports whether a request failed because no Daybook server answered it
// completely.
func isUnavailable(err error) bool {
	_, unusable := errors.AsType[*embed.AnswerError](err)
	return unusable || errors.Is(err, client.ErrNoServer)
}

// sourcedError is an error with the sources of the flags in its message.
type sourcedError struct {
	error
	text string
}

func (e sourcedError) Error() string { return e.text }
func (e sourcedError) Unwrap() error { return e.error }

// withSources adds the sources of flags to the message of a usageError, or of a request
// that no Daybook server answered.
func withSources(err error, kctx *kong.Context) error {
	if _, usage := errors.AsType[usageError](err); !usage && !errors.Is(err, client.ErrNoServer) {
		return err
	}
	return sourcedError{err, settings.NameSources(err.Error(), kctx)}
}

// defaultDataDir returns the data directory of the XDG base directory specification.
func defaultDataDir() string {
	if base := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(base) {
		return filepath.Join(base, "daybook")
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".local", "share", "daybook")
	}
	return "daybook-data"
}
