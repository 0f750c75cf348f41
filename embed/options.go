package embed

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/url"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"daybook/internal/exec/worker"
	"daybook/internal/lifecycle/retention"
	"daybook/internal/resources/fairness"
	"daybook/internal/tools/toolserver"
	"daybook/internal/translog"
	"daybook/internal/web"
	"daybook/internal/web/access"
	"daybook/ledger"
	"daybook/mcp"
)

// Options set up a Daybook. Only DataDir is required; the zero value of
// everything else is a sensible choice for a program that wants no listeners.
type Options struct {
	// DataDir holds everything: the streams, the projections, the socket. One
	// process at a time owns it; a second Start fails with ErrLocked. With TakeOver
	// it asks an owner with Background to hand over, and waits.
	DataDir  string
	TakeOver bool
	// Background makes an owner that gives DataDir up on demand, or once neither a
	// client nor a run has used it for IdleExit; 0 or less waits for a demand. It
	// closes Released; the program then calls Close.
	Background bool
	IdleExit   time.Duration
	// Notice, if set, is called with what the user should know while Start waits, as
	// one line.
	Notice func(text string)
	// Settings are the flags the program was started with, as --name=value. Clients
	// that were started with others receive their names.
	Settings []string
	// HTTPAddr is where HTTP listens ("127.0.0.1:8080"); empty listens nowhere
	// (Handler still works). HTTPFallback lets a busy port be replaced by a
	// free one.
	HTTPAddr     string
	HTTPFallback bool
	// AllowedHosts are Host header values accepted besides loopback names.
	AllowedHosts []string
	// TokenFile and OIDC say whose bearer tokens are accepted over HTTP; with
	// neither everybody who reaches it is let in. TokenFile is made by "daybook
	// token create".
	TokenFile string
	OIDC      OIDC
	// Limits bound what each tenant may use.
	Limits Limits
	// MaxConnections is how many HTTP connections may be open. Default: half of the
	// descriptors that the process may open, at most 4096. MaxConnectionsPerAddress is
	// how many of them one address may have. Default: half of them for an address of
	// another machine, and no bound of its own for a loopback address, which is that
	// of all clients of a proxy on this machine.
	MaxConnections           int
	MaxConnectionsPerAddress int
	// SessionTurns is how many turns of one logical session may wait at once: 0
	// means 1,000, negative is unlimited.
	SessionTurns int
	// CertFile and KeyFile make HTTP speak TLS. They may be replaced at any time.
	CertFile, KeyFile string
	// PublicURL is the address clients know the service by, where a proxy changes
	// it; empty for the one they use. Its host is accepted like AllowedHosts.
	PublicURL string
	// NATSAddr is where NATS listens for consumers ("127.0.0.1:4222"); empty
	// listens nowhere. NATSFallback lets a busy port be replaced by a free one.
	NATSAddr     string
	NATSFallback bool
	// NATSURL uses an outside NATS server or cluster instead of an embedded one. The
	// data directory records its address, and is not started without NATSURL then. A
	// directory with a ledger of its own is not started with NATSURL, nor is one of an
	// outside ledger at a server with another one.
	NATSURL string
	// Replicas is the number of copies of each stream on a cluster; default 1.
	Replicas int
	// WebhookAllowPrivate lets webhooks lead to this machine and private networks,
	// and over plain HTTP. Whoever may register one can then reach those.
	WebhookAllowPrivate bool
	// HeapRetention collects heaps by itself, now and then: those without tags that
	// nothing refers to and that were not used for this long, at least an hour; 0
	// keeps all. The newest HeapRetentionEntries entries of each session keep
	// theirs: 0 means 100, negative none.
	HeapRetention        time.Duration
	HeapRetentionEntries int
	// ErasableSessions encrypts the content of runs in named sessions, a key for each
	// session, so that Shred can erase it: consumers on NATS, webhooks and exports
	// then see cipher text. KeyDir holds the keys; default where they were the last
	// time, and at first DataDir/keys. What was encrypted can be read as long as the
	// keys are there, with this option or not. WithoutKeys has Rebuild go on without
	// content whose keys are lost, which it refuses to otherwise.
	ErasableSessions bool
	KeyDir           string
	WithoutKeys      bool
	// Progress, if set, is called by Rebuild with the position reached and the last
	// one.
	Progress func(done, total uint64)
	// NoRunner starts no runner: runs wait until a runner elsewhere takes them.
	NoRunner bool
	// Slots is how many scripts run at once; default the number of cores.
	Slots int
	// LimitSlots bounds the slots that one tenant occupies; 0 is unlimited.
	LimitSlots int
	// TenantWeights are the shares of the slots that tenants get while several of
	// them wait, in comparison with each other. A tenant that is not listed has 1.
	TenantWeights map[string]int
	// ExtraSlots is how many runs more than Slots are done for tenants that wait,
	// without any slot, while others keep all slots; default 2, negative none. They
	// wait for FairAfter first; default 500 ms, negative not at all.
	ExtraSlots int
	FairAfter  time.Duration
	// Stateless runs every script in a plain isolate: optimising compiler and
	// WebAssembly, but no heap in or out.
	Stateless bool
	// HeapMemoryMB and HeapMemoryCeilingMB are the default heap limit of a run
	// (64 MiB) and the largest one may ask for (256 MiB); both at most MaxMemoryMB.
	HeapMemoryMB        int
	HeapMemoryCeilingMB int
	// TimeoutSecs is the default wall-clock limit of a run, 1-300; default 30.
	TimeoutSecs int
	// OutputMaxBytes caps stored output per run: 0 means 64 MiB, negative
	// uncapped.
	OutputMaxBytes int64
	// MemoryMB is what answers, heaps of runs and cached heaps may take together, in
	// MiB, MinMemoryMB to MaxMemoryMB: three eighths for answers, half for runs, the
	// rest for the cache. Answers beyond that are refused with 503 and Retry-After; runs wait.
	// With the embedded NATS server it also sets how much output of all runs is recorded:
	// a sixteenth of it at once, then a thirty-second of it in each second.
	// Default: 512, or half of the memory limit of the Go runtime where that is less. A
	// value above that limit is lowered to it.
	MemoryMB int
	// LimitMemory adjusts the memory limit of the Go runtime (debug.SetMemoryLimit) to
	// the budget and what is in use, below the limit that the process has. It is for
	// processes that do nothing else. Close sets the former limit again.
	LimitMemory bool
	// MinClientBytes is what a client must send or take in each 30 s in which the
	// server waits for it. Default: 65536. A negative number asks for any progress.
	MinClientBytes int64
	// MCPServers are servers whose tools scripts may call; see ReadMCPServers.
	// Those that are commands run as children of this process, unconfined.
	MCPServers []toolserver.Config
	// HostCallBodies says what is kept of what scripts call and get: "full", the
	// default, or the "hash" of each, which cannot be fed back.
	HostCallBodies string
	// Contexts bounds the contexts of conversations.
	Contexts ContextOptions
	// SessionID names the session that runs over stdio MCP are logged under.
	SessionID string
	// MCPFixtures are mounted beside the product's own tools, for a test suite of MCP.
	// Default: none.
	MCPFixtures *mcp.Fixtures
	// Instructions and RunJSDescription replace the texts MCP clients are given.
	Instructions     string
	RunJSDescription string
	// Sandbox says what happens on a machine that cannot confine workers as it
	// should: "strict", the default, refuses to start; "best-effort" logs once what
	// is missing and runs scripts all the same.
	Sandbox string
	// WorkerReuse says which runs may share a worker process, one after another:
	// those of a "tenant" (the default), of a "session", or none ("run").
	WorkerReuse string
	// WorkerMaxRuns and WorkerMaxAge retire a worker; default 1,000 runs and one
	// hour.
	WorkerMaxRuns int
	WorkerMaxAge  time.Duration
	// DrainWait is how long Close lets running scripts finish before they are
	// handed back; default 10 s, negative hands them back at once.
	DrainWait time.Duration
	// AuditKey is the file of the key that checkpoints of the ledger are signed
	// with, made if it does not exist; empty keeps one in DataDir. WitnessURL is
	// sent every checkpoint. NoAudit keeps no proofs at all.
	AuditKey   string
	WitnessURL string
	NoAudit    bool
	// AcceptDamage goes on although the ledger is damaged: what is lost is named by
	// the first event of a new volume, and the damaged files are kept aside. It does
	// nothing where nothing is damaged, and is needed for one start only.
	AcceptDamage bool
	// CheckBytes is how much of each stream's files is looked at for damage before
	// they are used, the newest; default 16 GiB, negative is all of it.
	CheckBytes int64
	// SealEvery says when a volume of the ledger is complete: with the "month" (UTC)
	// it was begun in, the default, or "never". SealBytes is the size on disk at
	// which it is in any case; default 64 GiB, negative for none.
	SealEvery string
	SealBytes int64
	// DiskReserve is how much of the disk of DataDir is kept free, in bytes: below it
	// no new run is accepted, and below a quarter of it nothing is recorded, until
	// there is more space. Default: 256 MiB, at most a twentieth of the file system;
	// negative keeps nothing free.
	DiskReserve int64
	// ScrubEvents is how many events a second the scrub reads again to compare them
	// with their hashes, at most 1 MiB a second. Default: 2,000. A negative number turns
	// the scrub off.
	ScrubEvents int
	// NoSync acknowledges events before they are on disk. Only for tests.
	NoSync bool
	// Version is reported to clients.
	Version string
	// Logger receives everything; default discards.
	Logger *slog.Logger
}

// The values of Options.Sandbox.
const (
	sandboxStrict     = "strict"
	sandboxBestEffort = "best-effort"
)

func (o Options) withDefaults() (Options, error) {
	var problems []error
	if o.DataDir == "" {
		problems = append(problems, fieldIs("DataDir", "empty: name the directory that holds the ledger"))
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		problems = append(problems, errors.New("CertFile and KeyFile belong together: give both or none"))
	}
	for _, host := range o.AllowedHosts {
		if err := web.CheckHost(host); err != nil {
			problems = append(problems, ofField("AllowedHosts", err))
		}
	}
	if o.PublicURL != "" {
		u, err := url.Parse(o.PublicURL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || web.CheckHost(u.Host) != nil || strings.Trim(u.Path, "/") != "" {
			problems = append(problems, fieldIs("PublicURL", "%q: give a URL without a path, such as https://book.example.com", o.PublicURL))
		} else {
			o.PublicURL = u.Scheme + "://" + u.Host
			o.AllowedHosts = append(slices.Clip(o.AllowedHosts), u.Host)
		}
	}
	if o.NATSURL != "" && o.NATSAddr != "" {
		problems = append(problems, errors.New("NATSURL and NATSAddr exclude each other: an outside server does its own listening"))
	}
	for _, field := range []struct {
		name  string
		value int
	}{
		{"Replicas", o.Replicas},
		{"Slots", o.Slots},
		{"HeapMemoryMB", o.HeapMemoryMB},
		{"HeapMemoryCeilingMB", o.HeapMemoryCeilingMB},
		{"TimeoutSecs", o.TimeoutSecs},
		{"WorkerMaxRuns", o.WorkerMaxRuns},
		{"MaxConnections", o.MaxConnections},
		{"MaxConnectionsPerAddress", o.MaxConnectionsPerAddress},
		{"MemoryMB", o.MemoryMB},
	} {
		if field.value < 0 {
			problems = append(problems, fieldIs(field.name, "%d: it cannot be negative", field.value))
		}
	}
	for _, field := range []struct {
		name  string
		value int
	}{{"HeapMemoryMB", o.HeapMemoryMB}, {"HeapMemoryCeilingMB", o.HeapMemoryCeilingMB}} {
		if field.value > MaxMemoryMB {
			problems = append(problems, fieldIs(field.name, "%d: the most is %d", field.value, MaxMemoryMB))
		}
	}
	if o.MemoryMB > 0 && (o.MemoryMB < MinMemoryMB || o.MemoryMB > MaxMemoryMB) {
		problems = append(problems, fieldIs("MemoryMB", "%d: the range is %d to %d", o.MemoryMB, MinMemoryMB, MaxMemoryMB))
	}
	if o.SessionID != "" {
		if err := ledger.CheckSession(o.SessionID); err != nil {
			problems = append(problems, ofField("SessionID", err))
		}
	}
	if o.Sandbox != "" && o.Sandbox != sandboxStrict && o.Sandbox != sandboxBestEffort {
		problems = append(problems, ofField("Sandbox", fmt.Errorf("%q is unknown: choose %s or %s", o.Sandbox, sandboxStrict, sandboxBestEffort)))
	}
	if o.HeapRetention != 0 && o.HeapRetention < retention.MinAge {
		problems = append(problems, fieldIs("HeapRetention", "%s: it must be %s or more, or 0 to keep all heaps", o.HeapRetention, retention.MinAge))
	}
	if _, err := worker.ParseReuse(o.WorkerReuse); err != nil {
		problems = append(problems, ofField("WorkerReuse", err))
	}
	if err := toolserver.CheckAll(o.MCPServers); err != nil {
		problems = append(problems, ofField("MCPServers", err))
	}
	if o.HostCallBodies != "" && o.HostCallBodies != hostCallsFull && o.HostCallBodies != hostCallsHashed {
		problems = append(problems, fieldIs("HostCallBodies", "%q: choose %s or %s", o.HostCallBodies, hostCallsFull, hostCallsHashed))
	}
	if o.SealEvery != "" && o.SealEvery != sealMonthly && o.SealEvery != sealNever {
		problems = append(problems, fieldIs("SealEvery", "%q: choose %s or %s", o.SealEvery, sealMonthly, sealNever))
	}
	if o.SealBytes > 0 && o.SealBytes < 1<<20 {
		problems = append(problems, fieldIs("SealBytes", "%d: the least is 1 MiB (1048576)", o.SealBytes))
	}
	if o.LimitSlots < 0 {
		problems = append(problems, fieldIs("LimitSlots", "%d: 0 is unlimited", o.LimitSlots))
	}
	for _, tenant := range slices.Sorted(maps.Keys(o.TenantWeights)) {
		if err := access.CheckTenant(tenant); err != nil {
			problems = append(problems, ofField("TenantWeights", err))
		}
		if w := o.TenantWeights[tenant]; w < 1 || w > MaxWeight {
			problems = append(problems, fmt.Errorf("TenantWeights: the weight of tenant %q is %d: the range is 1 to %d", tenant, w, MaxWeight))
		}
	}
	if err := translog.CheckWitness(o.WitnessURL); err != nil {
		problems = append(problems, ofField("WitnessURL", err))
	}
	if err := o.Contexts.check(); err != nil {
		problems = append(problems, err)
	}
	if o.WorkerMaxAge < 0 {
		problems = append(problems, fieldIs("WorkerMaxAge", "%s: it cannot be negative", o.WorkerMaxAge))
	}
	if o.TimeoutSecs > 300 {
		problems = append(problems, fieldIs("TimeoutSecs", "%d: the range is 1 to 300", o.TimeoutSecs))
	}
	if err := errors.Join(problems...); err != nil {
		return o, asOption(fmt.Errorf("options: %w", err))
	}
	setDefault(&o.SealEvery, sealMonthly)
	setDefault(&o.SealBytes, 64<<30)
	setDefault(&o.Slots, runtime.NumCPU())
	setDefault(&o.ExtraSlots, 2)
	setDefault(&o.FairAfter, 500*time.Millisecond)
	setDefault(&o.Replicas, 1)
	setDefault(&o.HeapMemoryMB, 64)
	setDefault(&o.HeapMemoryCeilingMB, max(256, o.HeapMemoryMB))
	setDefault(&o.TimeoutSecs, 30)
	limit := debug.SetMemoryLimit(-1)
	setDefault(&o.MemoryMB, memoryMB(limit))
	setDefault(&o.DrainWait, 10*time.Second)
	setDefault(&o.CheckBytes, 16<<30)
	setDefault(&o.ScrubEvents, 2000)
	if o.HeapMemoryMB > o.HeapMemoryCeilingMB {
		return o, asOption(fmt.Errorf("options: HeapMemoryMB (%d) is above HeapMemoryCeilingMB (%d)", o.HeapMemoryMB, o.HeapMemoryCeilingMB))
	}
	if o.Version == "" {
		o.Version = "devel"
	}
	if o.Notice == nil {
		o.Notice = func(string) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if most := int(max(limit>>20, MinMemoryMB)); o.MemoryMB > most {
		o.Logger.Warn("the memory budget (--memory-budget) is above the memory limit of the Go runtime and is lowered to it; give the process more memory, or set GOMEMLIMIT",
			"asked_mib", o.MemoryMB, "budget_mib", most)
		o.MemoryMB = most
	}
	abs, err := filepath.Abs(o.DataDir)
	if err != nil {
		return o, fmt.Errorf("options: resolve DataDir: %w", err)
	}
	o.DataDir = abs
	return o, nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// MaxWeight is the largest weight of a tenant.
const MaxWeight = 1000

// shares is how tenants share the slots.
func (o Options) shares() fairness.Slots {
	return fairness.Slots{
		Total: o.Slots, PerTenant: o.LimitSlots, Extra: max(o.ExtraSlots, 0), After: max(o.FairAfter, 0), Weights: o.TenantWeights,
	}
}
