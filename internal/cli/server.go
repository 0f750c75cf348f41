package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"daybook/embed"
	"daybook/internal/web/access"
)

// engineFlags are the flags of the commands that own a ledger.
type engineFlags struct {
	DataDir          string         `help:"Directory of the ledger and of all data derived from it." default:"${datadir}" placeholder:"DIR"`
	Slots            *int           `name:"max-concurrent-executions" help:"Number of scripts that run at once. Default: the number of cores." placeholder:"N"`
	LimitSlots       int            `name:"limit-slots" help:"Scripts of one tenant that run at once; 0 is unlimited." default:"0" placeholder:"N"`
	TenantWeights    map[string]int `name:"tenant-weights" mapsep:"," help:"Relative shares of the slots while several tenants wait: tenant=N, 1 to 1000, or an object in the file of --config. A tenant that is not listed has 1." placeholder:"TENANT=N"`
	ExtraSlots       int            `name:"extra-slots" help:"Number of additional slots for tenants that wait while others keep all slots; 0 is none." default:"2" placeholder:"N"`
	FairAfter        time.Duration  `name:"fair-after" help:"Time that a tenant waits, while others keep all slots, before its script runs in an extra slot." default:"500ms" placeholder:"DURATION"`
	Stateless        bool           `help:"Run scripts in plain isolates, with the optimizing compiler and WebAssembly but without heaps; MCP offers only a blocking run_js."`
	HeapMemoryMax    int            `help:"Default V8 heap limit of a run, in MB." default:"64" placeholder:"MB"`
	HeapCeiling      *int           `name:"heap-memory-ceiling" help:"Largest V8 heap limit that a run may request, in MB. Default: 256, or --heap-memory-max if that is more." placeholder:"MB"`
	Timeout          int            `name:"execution-timeout" help:"Default wall-clock limit of a run, in seconds, 1 to 300." default:"30" placeholder:"SECONDS"`
	OutputMaxBytes   int64          `help:"Stored output per run, in bytes; 0 is unlimited." default:"67108864" placeholder:"BYTES"`
	MemoryBudget     *int           `name:"memory-budget" help:"Memory for answers, heaps of runs and cached heaps together, in MiB, 64 to 1048576. Default: 512, or half of the memory limit of the Go runtime if that is less." placeholder:"MIB"`
	MinClientRate    int64          `name:"min-client-rate" help:"Bytes that a client must send or receive in each 30 s in which the server waits for it; 0 requires any progress." default:"65536" placeholder:"BYTES"`
	Sandbox          string         `help:"Action if the sandbox is incomplete: strict (refuse to start) or best-effort (log the missing layers and continue)." enum:"strict,best-effort" default:"strict"`
	WorkerReuse      string         `help:"Runs that may share a worker process, one after another: those of a tenant, of a session, or none (run)." enum:"tenant,session,run" default:"tenant"`
	WorkerMaxRuns    int            `help:"Number of runs after which a worker process is replaced." default:"1000" placeholder:"N"`
	WorkerMaxAge     time.Duration  `help:"Age at which a worker process is replaced." default:"1h" placeholder:"DURATION"`
	DrainWait        time.Duration  `help:"Time that running scripts have at shutdown before they are handed back, to continue at the next start." default:"10s" placeholder:"DURATION"`
	MCPServers       []string       `name:"mcp-server" sep:"none" help:"MCP server whose tools scripts may call, as name=command with arguments or name=https://host/path; may be repeated." placeholder:"NAME=COMMAND|URL"`
	MCPConfig        string         `name:"mcp-config" help:"File of MCP servers that scripts may call, in the mcpServers form of MCP clients; $${NAME} is replaced from the environment." placeholder:"FILE"`
	HostCallBodies   string         `name:"host-call-bodies" help:"Recorded part of host calls: arguments and results (full), or only their hashes (hash)." enum:"full,hash" default:"full"`
	ContextIdle      time.Duration  `name:"context-idle" help:"Idle time after which a conversation context is reset." default:"30m" placeholder:"DURATION"`
	ContextSessions  int            `name:"context-max-sessions" help:"Conversation contexts held in memory; others are read when needed." default:"10000" placeholder:"N"`
	ContextMemory    int            `name:"context-memory" help:"Memory for conversation contexts, in MB." default:"64" placeholder:"MB"`
	ContextHighWater int            `name:"context-high-water" help:"Size of the Go heap, in MB, above which conversation contexts are dropped from memory." default:"512" placeholder:"MB"`
	ContextScope     string         `name:"context-scope" help:"Sharing of the conversation context of a session name with --auth: principal (each has its own) or tenant (one for all)." default:"principal" enum:"principal,tenant" placeholder:"SCOPE"`
	ContextSecrets   []string       `name:"context-secret-key" help:"Part of the names whose values are kept out of conversation contexts, besides the usual ones; may be repeated." placeholder:"NAME"`
	SessionID        string         `name:"session-id" help:"Named session to log runs over stdio MCP under." placeholder:"NAME"`
	Instructions     string         `help:"Instructions for MCP clients, in place of the usual ones." placeholder:"TEXT"`
	RunJSDescription string         `name:"run-js-description" help:"Description of the run_js tool, in place of the usual one." placeholder:"TEXT"`
	AuditKey         string         `help:"File of the signing key for checkpoints, created if it does not exist. Default: a file in the data directory." placeholder:"FILE"`
	WitnessURL       string         `name:"witness-url" help:"URL of a witness that receives every signed checkpoint by POST." placeholder:"URL"`
	ScrubRate        int            `name:"scrub-rate" help:"Events per second that the scrub re-reads and compares with their hashes, at most 1 MiB/s; 0 turns the scrub off." default:"2000" placeholder:"N"`
	DiskReserve      *int64         `name:"disk-reserve" help:"Space to keep free on the disk of --data-dir, in MiB, up to 1073741824; below it no new run is accepted. 0 keeps nothing free. Default: 256, at most 5 % of the disk." placeholder:"MIB"`
	LogLevel         string         `help:"Least severe level of log records written to stderr: ${enum}." enum:"debug,info,warn,error" default:"warn"`
}

// Validate checks the values for which package embed would report an option instead of
// a flag.
func (f engineFlags) Validate() error {
	for _, tenant := range slices.Sorted(maps.Keys(f.TenantWeights)) {
		if err := access.CheckTenant(tenant); err != nil {
			return fmt.Errorf("--tenant-weights: %w", err)
		}
		if w := f.TenantWeights[tenant]; w < 1 || w > embed.MaxWeight {
			return fmt.Errorf("--tenant-weights %s=%d: the range is 1 to %d; for example --tenant-weights %s=2", tenant, w, embed.MaxWeight, tenant)
		}
	}
	if err := f.checkRanges(); err != nil {
		return err
	}
	switch {
	case f.HeapCeiling != nil && *f.HeapCeiling < f.HeapMemoryMax:
		return fmt.Errorf("--heap-memory-ceiling is %d: it must not be below --heap-memory-max, which is %d", *f.HeapCeiling, f.HeapMemoryMax)
	case f.Timeout < 1 || f.Timeout > 300:
		return fmt.Errorf("--execution-timeout is %d: the range is 1 to 300", f.Timeout)
	case f.WorkerMaxRuns < 1:
		return fmt.Errorf("--worker-max-runs is %d: it must be 1 or more", f.WorkerMaxRuns)
	case f.ContextIdle <= 0:
		return fmt.Errorf("--context-idle is %s: it must be more than 0", f.ContextIdle)
	case f.ContextSessions < 1:
		return fmt.Errorf("--context-max-sessions is %d: it must be 1 or more", f.ContextSessions)
	case f.ContextMemory < 1:
		return fmt.Errorf("--context-memory is %d: it must be 1 or more", f.ContextMemory)
	case f.ContextHighWater < 1:
		return fmt.Errorf("--context-high-water is %d: it must be 1 or more", f.ContextHighWater)
	case f.WorkerMaxAge <= 0:
		return fmt.Errorf("--worker-max-age is %s: it must be more than 0", f.WorkerMaxAge)
	case f.ScrubRate < 0:
		return fmt.Errorf("--scrub-rate is %d: it must be 0 or more", f.ScrubRate)
	case f.DrainWait < 0:
		return fmt.Errorf("--drain-wait is %s: it cannot be negative", f.DrainWait)
	}
	return nil
}

func (f engineFlags) options(log io.Writer) embed.Options {
	// On the command line 0 is a value of its own. In embed.Options it means the
	// default, and a negative number has the meaning of 0 here.
	output, drain := f.OutputMaxBytes, f.DrainWait
	if output == 0 {
		output = -1
	}
	if drain == 0 {
		drain = -1
	}
	scrub, rate := f.ScrubRate, f.MinClientRate
	if scrub == 0 {
		scrub = -1
	}
	extra, after := f.ExtraSlots, f.FairAfter
	if extra == 0 {
		extra = -1
	}
	if after == 0 {
		after = -1
	}
	if rate == 0 {
		rate = -1
	}
	var reserve int64
	if f.DiskReserve != nil {
		if reserve = *f.DiskReserve << 20; reserve == 0 {
			reserve = -1
		}
	}
	var level slog.Level
	_ = level.UnmarshalText([]byte(f.LogLevel)) // kong has checked the value
	return embed.Options{
		DataDir:   f.DataDir,
		Slots:     embed.SlotOptions{Total: orZero(f.Slots), PerTenant: f.LimitSlots, Weights: f.TenantWeights, Extra: extra, ExtraAfter: after},
		Runs:      embed.RunOptions{Stateless: f.Stateless, HeapMB: f.HeapMemoryMax, HeapCeilingMB: orZero(f.HeapCeiling), TimeoutSecs: f.Timeout, OutputMaxBytes: output, DrainWait: drain},
		Resources: embed.ResourceOptions{MemoryMB: orZero(f.MemoryBudget), MinClientBytes: rate, DiskReserve: reserve},
		Workers:   embed.WorkerOptions{Sandbox: f.Sandbox, Reuse: f.WorkerReuse, MaxRuns: f.WorkerMaxRuns, MaxAge: f.WorkerMaxAge},
		Tools:     embed.ToolOptions{Bodies: f.HostCallBodies},
		MCP:       embed.MCPOptions{SessionID: f.SessionID, Instructions: f.Instructions, RunJSDescription: f.RunJSDescription},
		Contexts:  embed.ContextOptions{Idle: f.ContextIdle, MaxSessions: f.ContextSessions, MaxMB: f.ContextMemory, HighWaterMB: f.ContextHighWater, TenantScope: f.ContextScope == "tenant", SecretKeys: f.ContextSecrets},
		Proof:     embed.ProofOptions{KeyFile: f.AuditKey, ScrubEvents: scrub, WitnessURL: f.WitnessURL},
		Version:   version(),
		Logger:    slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: level})),
	}
}

func orZero(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

const (
	defaultHTTPAddr = "127.0.0.1:8080"
	defaultNATSAddr = "127.0.0.1:4222"
)

type serveCmd struct {
	engineFlags
	authFlags
	HTTPAddr             string        `name:"http-addr" help:"Listen address of HTTP and MCP. Default: 127.0.0.1:8080, or a free port if it is busy." placeholder:"HOST:PORT" xor:"http"`
	HTTPPort             int           `name:"http-port" help:"Listen port, short for --http-addr 127.0.0.1:PORT." placeholder:"PORT" xor:"http"`
	SSEPort              int           `name:"sse-port" help:"Listen port, as --http-port; the legacy SSE transport uses the same address." placeholder:"PORT" xor:"http"`
	NATSAddr             string        `name:"nats-addr" help:"Listen address of NATS for subscribers, or off. Default: 127.0.0.1:4222, or a free port if it is busy; off with --auth." placeholder:"HOST:PORT"`
	NATSURL              string        `name:"nats-url" help:"URL of an outside NATS server or cluster that stores the ledger." placeholder:"URL"`
	AllowPrivate         bool          `name:"webhook-allow-private" help:"Allow webhooks to this machine and private networks, and over plain HTTP."`
	HeapRetention        time.Duration `name:"heap-retention" help:"Time without use after which untagged and unreferenced heaps are deleted automatically, 1h or more; 0 keeps all heaps." default:"0" placeholder:"DURATION"`
	HeapRetentionEntries int           `name:"heap-retention-entries" help:"Number of newest entries of each session that keep their heaps in any case." default:"100" placeholder:"N"`
	ErasableSessions     bool          `name:"erasable-sessions" help:"Encrypt the content of runs in named sessions, so that \"session shred\" can shred it. NATS subscribers, webhooks and exports then receive ciphertext."`
	KeyDir               string        `name:"key-dir" help:"Directory of the content keys. Default: the directory that was used last, at first keys in the data directory." placeholder:"DIR"`
	SealEvery            string        `name:"seal-every" help:"Schedule for volume rotation: month (UTC) or never." enum:"month,never" default:"month"`
	SealBytes            int64         `name:"seal-bytes" help:"Size at which a volume is sealed in any case, in bytes, 1048576 or more; 0 is unlimited." default:"68719476736" placeholder:"BYTES"`
	AcceptDamage         bool          `name:"accept-damage" help:"Start although the ledger is damaged: a new volume is opened, its first event names what is lost, and the damaged files are quarantined. Needed for one start only."`
	AllowedHosts         []string      `name:"allowed-host" help:"Host header to accept besides loopback names; may be repeated." placeholder:"HOST"`
}

// Validate checks the flags that package embed does not check.
func (c *serveCmd) Validate() error {
	return cmp.Or(c.engineFlags.Validate(), inRange("heap-retention-entries", c.HeapRetentionEntries, 0, maxCount, "", "100"))
}

func (c *serveCmd) options(log io.Writer) embed.Options {
	opts := c.engineFlags.options(log)
	opts.HTTP.Hosts = c.AllowedHosts
	opts.Storage.AcceptDamage = c.AcceptDamage
	opts.Webhooks.AllowPrivate = c.AllowPrivate
	opts.Content.Erasable, opts.Content.KeyDir = c.ErasableSessions, c.KeyDir
	opts.Content.HeapRetention, opts.Content.HeapRetentionEntries = c.HeapRetention, c.HeapRetentionEntries
	if c.HeapRetentionEntries == 0 {
		opts.Content.HeapRetentionEntries = -1
	}
	opts.Storage.SealEvery, opts.Storage.SealBytes = c.SealEvery, c.SealBytes
	if c.SealBytes == 0 {
		opts.Storage.SealBytes = -1
	}
	opts.HTTP.Addr = c.HTTPAddr
	for _, port := range []int{c.HTTPPort, c.SSEPort} {
		if port != 0 {
			opts.HTTP.Addr = fmt.Sprintf("127.0.0.1:%d", port)
		}
	}
	if opts.HTTP.Addr == "" {
		opts.HTTP.Addr, opts.HTTP.Fallback = defaultHTTPAddr, true
	}
	opts.NATS.URL = c.NATSURL
	switch {
	case c.NATSAddr == "off" || c.NATSURL != "":
	case c.NATSAddr == "" && len(c.Auth) > 0: // several tenants: only on request
	case c.NATSAddr == "":
		opts.NATS.Addr, opts.NATS.Fallback = defaultNATSAddr, true
	default:
		opts.NATS.Addr = c.NATSAddr
	}
	return opts
}

// Run takes over from a background owner and serves until a signal drains it. A second
// signal ends the process at once. Nothing acknowledged is lost in either case.
func (c *serveCmd) Run(ctx context.Context, kctx *kong.Context, std *streams) error {
	opts := c.options(std.err)
	opts.Owner.TakeOver, opts.Owner.Settings = true, sharedSettingsOf(kctx)
	opts.Owner.Notice = func(text string) { fmt.Fprintln(std.err, "daybook:", text) }
	if err := c.apply(&opts); err != nil {
		return usageError{err}
	}
	if err := c.mcpServers(&opts); err != nil {
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
