package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"daybook/embed"
)

// engineFlags are shared by the commands that hold a ledger themselves.
type engineFlags struct {
	DataDir          string        `help:"Directory that holds the ledger and everything derived from it." default:"${datadir}" placeholder:"DIR"`
	Slots            int           `name:"max-concurrent-executions" help:"Scripts run at once; default the number of cores." placeholder:"N"`
	Stateless        bool          `help:"Plain isolates: optimising compiler and WebAssembly, but no heaps; MCP offers a blocking run_js only."`
	HeapMemoryMax    int           `help:"Default heap limit of a run, in MB." default:"64" placeholder:"MB"`
	HeapCeiling      int           `name:"heap-memory-ceiling" help:"Largest heap limit a run may ask for, in MB." default:"256" placeholder:"MB"`
	Timeout          int           `name:"execution-timeout" help:"Default wall-clock limit of a run, in seconds, 1 to 300." default:"30" placeholder:"SECONDS"`
	OutputMaxBytes   int64         `help:"Output stored per run, in bytes; -1 is unlimited." default:"67108864" placeholder:"BYTES"`
	DrainWait        time.Duration `help:"How long running scripts may finish at shutdown before they are handed back." default:"10s" placeholder:"DURATION"`
	SessionID        string        `name:"session-id" help:"Session that runs over stdio MCP are logged under." placeholder:"NAME"`
	Instructions     string        `help:"Replace the instructions given to MCP clients." placeholder:"TEXT"`
	RunJSDescription string        `name:"run-js-description" help:"Replace the description of the run_js tool." placeholder:"TEXT"`
	LogLevel         string        `help:"Least severe log record written to stderr: ${enum}." enum:"debug,info,warn,error" default:"warn"`
}

func (f engineFlags) options(log io.Writer) embed.Options {
	output := f.OutputMaxBytes
	if output == 0 {
		output = -1 // on the command line 0 means uncapped
	}
	var level slog.Level
	_ = level.UnmarshalText([]byte(f.LogLevel)) // kong has checked the value
	return embed.Options{
		DataDir:             f.DataDir,
		Slots:               f.Slots,
		Stateless:           f.Stateless,
		HeapMemoryMB:        f.HeapMemoryMax,
		HeapMemoryCeilingMB: f.HeapCeiling,
		TimeoutSecs:         f.Timeout,
		OutputMaxBytes:      output,
		DrainWait:           f.DrainWait,
		SessionID:           f.SessionID,
		Instructions:        f.Instructions,
		RunJSDescription:    f.RunJSDescription,
		Version:             version(),
		Logger:              slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: level})),
	}
}

const (
	defaultHTTPAddr = "127.0.0.1:8080"
	defaultNATSAddr = "127.0.0.1:4222"
)

type serveCmd struct {
	engineFlags
	HTTPAddr     string   `name:"http-addr" help:"Where HTTP, MCP and the console listen; default 127.0.0.1:8080, or a free port when that is busy." placeholder:"HOST:PORT" xor:"http"`
	HTTPPort     int      `name:"http-port" help:"Short for --http-addr 127.0.0.1:PORT." placeholder:"PORT" xor:"http"`
	SSEPort      int      `name:"sse-port" help:"Like --http-port: the legacy SSE transport is served on the same address." placeholder:"PORT" xor:"http"`
	NATSAddr     string   `name:"nats-addr" help:"Where NATS listens for consumers of events; default 127.0.0.1:4222, or a free port when that is busy; off closes it." placeholder:"HOST:PORT"`
	NATSURL      string   `name:"nats-url" help:"Keep the ledger on an outside NATS server or cluster." placeholder:"URL"`
	AllowedHosts []string `name:"allowed-host" help:"Accept this Host header besides loopback names; may be repeated." placeholder:"HOST"`
}

func (c *serveCmd) options(log io.Writer) embed.Options {
	opts := c.engineFlags.options(log)
	opts.AllowedHosts = c.AllowedHosts
	opts.HTTPAddr = c.HTTPAddr
	for _, port := range []int{c.HTTPPort, c.SSEPort} {
		if port != 0 {
			opts.HTTPAddr = fmt.Sprintf("127.0.0.1:%d", port)
		}
	}
	if opts.HTTPAddr == "" {
		opts.HTTPAddr, opts.HTTPFallback = defaultHTTPAddr, true
	}
	opts.NATSURL = c.NATSURL
	switch {
	case c.NATSAddr == "off" || c.NATSURL != "":
	case c.NATSAddr == "":
		opts.NATSAddr, opts.NATSFallback = defaultNATSAddr, true
	default:
		opts.NATSAddr = c.NATSAddr
	}
	return opts
}

// Run serves until a signal drains it. A second signal ends the process at
// once; nothing acknowledged is lost either way.
func (c *serveCmd) Run(ctx context.Context, std *streams) error {
	book, err := embed.Start(ctx, c.options(std.err))
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "Daybook %s\n", version())
	fmt.Fprintf(std.out, "  data     %s\n", book.DataDir())
	fmt.Fprintf(std.out, "  http     %s   (REST at /api, documentation at /docs)\n", book.URL())
	fmt.Fprintf(std.out, "  mcp      %s/mcp\n", book.URL())
	if url := book.NATSURL(); url != "" {
		fmt.Fprintf(std.out, "  events   %s\n", book.SubscribeHint())
	}
	fmt.Fprintln(std.out, "Ready. Press Ctrl-C to stop.")
	select {
	case <-ctx.Done():
		fmt.Fprintln(std.err, "daybook: draining; press Ctrl-C again to stop at once")
		again := make(chan os.Signal, 1)
		signal.Notify(again, os.Interrupt, syscall.SIGTERM)
		defer signal.Stop(again)
		closed := make(chan error, 1)
		go func() { closed <- book.Close() }()
		select {
		case err := <-closed:
			return err
		case <-again:
			return errors.New("stopped before draining ended; unfinished runs will be continued at the next start")
		}
	case <-book.Done():
		return errors.Join(book.Err(), book.Close())
	}
}

type mcpCmd struct{ engineFlags }

// Run serves MCP on the standard streams, with a ledger of its own or through
// the process that holds the data directory already.
func (c *mcpCmd) Run(ctx context.Context, std *streams) error {
	book, err := embed.Start(ctx, c.options(std.err))
	if errors.Is(err, embed.ErrLocked) {
		return embed.AttachMCP(ctx, c.DataDir, c.SessionID, std.in, std.out)
	}
	if err != nil {
		return err
	}
	return errors.Join(book.ServeMCP(ctx, std.in, std.out), book.Close())
}

type rebuildCmd struct {
	DataDir string `help:"Directory that holds the ledger." default:"${datadir}" placeholder:"DIR"`
}

// Run builds the projections anew beside the old ones and swaps them.
func (c *rebuildCmd) Run(ctx context.Context, std *streams) error {
	start := time.Now()
	n, err := embed.Rebuild(ctx, embed.Options{DataDir: c.DataDir})
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "Rebuilt the projections from %d events in %s.\n", n, time.Since(start).Round(time.Millisecond))
	return nil
}

// version is the module's version as the Go toolchain recorded it.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}
