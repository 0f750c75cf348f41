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

// Options configure a Daybook. Only DataDir is required. The zero values of the other
// fields suit a program that opens no listeners.
type Options struct {
	// DataDir holds the streams, the projections and the socket. One process at a time
	// owns it: a second Start fails with ErrLocked. With TakeOver, Start asks an owner
	// with Background to hand the directory over, and waits.
	DataDir  string
	TakeOver bool
	// Background makes an owner that releases DataDir on request of another process, or
	// after neither a client nor a run used it for IdleExit. If IdleExit is 0 or less
	// it is released only on request. The owner closes Released; the program MUST then
	// call Close.
	Background bool
	IdleExit   time.Duration
	// Notice, if set, is called with each message to the user while Start waits. A
	// message is one line.
	Notice func(text string)
	// Settings are the flags of the program, as --name=value. Clients with other flags
	// receive the names of those that differ.
	Settings []string
	// HTTPAddr is the listen address of HTTP, such as "127.0.0.1:8080". If it is empty,
	// no address is opened and only Handler serves. HTTPFallback permits a free port if
	// the port is busy.
	HTTPAddr     string
	HTTPFallback bool
	// AllowedHosts are the accepted Host headers besides loopback names.
	AllowedHosts []string
	// TokenFile and OIDC select the bearer tokens that HTTP accepts. With neither,
	// every client that reaches the address is accepted. "daybook token create" creates
	// a TokenFile.
	TokenFile string
	OIDC      OIDC
	// Limits bound what each tenant may use.
	Limits Limits
	// MaxConnections is the maximum number of open HTTP connections. Default: half of
	// the descriptors that the process may open, at most 4096. MaxConnectionsPerAddress
	// is the maximum from one address. Default: half of MaxConnections for an address
	// of another machine, and no separate limit for a loopback address, because all
	// clients of a proxy on this machine share it.
	MaxConnections           int
	MaxConnectionsPerAddress int
	// SessionTurns is the maximum number of waiting turns in one logical session.
	// Default: 1,000. A negative number is unlimited.
	SessionTurns int
	// CertFile and KeyFile make HTTP use TLS. The files may be replaced at any time.
	CertFile, KeyFile string
	// PublicURL is the address that clients use if a proxy changes it. Default: the
	// address of the request. Its host is accepted like AllowedHosts.
	PublicURL string
	// NATSAddr is the listen address of NATS for subscribers, such as "127.0.0.1:4222".
	// If it is empty, no address is opened. NATSFallback permits a free port if the
	// port is busy.
	NATSAddr     string
	NATSFallback bool
	// NATSURL is the address of an outside NATS server or cluster that stores the
	// ledger instead of the embedded server. The data directory records the address and
	// then cannot be started without NATSURL. A directory with a ledger of its own
	// cannot be started with NATSURL, and a directory of an outside ledger cannot be
	// started on a server with another ledger.
	NATSURL string
	// Replicas is the number of copies of each stream on a cluster. Default: 1.
	Replicas int
	// WebhookAllowPrivate permits webhooks to this machine and to private networks, and
	// over plain HTTP. Clients that may add webhooks can then reach these networks.
	WebhookAllowPrivate bool
	// HeapRetention is the time without use after which heaps without tags and
	// references are collected automatically, at least 1 h. 0 keeps all heaps. The
	// newest HeapRetentionEntries entries of each session keep their heaps. Default:
	// 100. A negative number keeps none of them.
	HeapRetention        time.Duration
	HeapRetentionEntries int
	// ErasableSessions encrypts the content of runs in named sessions, with a key for
	// each session, so that Shred can destroy it. NATS subscribers, webhooks and
	// exports then receive ciphertext. KeyDir is the directory of the keys. Default:
	// the directory that was used last, at first DataDir/keys. Encrypted content is
	// readable as long as its key exists, with or without ErasableSessions. WithoutKeys
	// lets Rebuild omit content whose keys are lost; otherwise Rebuild returns an
	// error.
	ErasableSessions bool
	KeyDir           string
	WithoutKeys      bool
	// Progress, if set, is called by Rebuild with the position reached and the last
	// position.
	Progress func(done, total uint64)
	// NoRunner starts no runner. Runs wait for a runner elsewhere.
	NoRunner bool
	// Slots is the number of scripts that run at once. Default: the number of cores.
	Slots int
	// LimitSlots is the maximum number of slots of one tenant. 0 is unlimited.
	LimitSlots int
	// TenantWeights are the relative shares of the slots while several tenants wait. A
	// tenant that is not listed has weight 1.
	TenantWeights map[string]int
	// ExtraSlots is the number of slots besides Slots for tenants that wait without a
	// slot while others keep all slots. Default: 2. A negative number is none. The
	// tenants wait for FairAfter first. Default: 500 ms. A negative duration is no
	// wait.
	ExtraSlots int
	FairAfter  time.Duration
	// Stateless runs every script in a plain isolate, with the optimizing compiler and
	// WebAssembly, but without restoring or saving heaps.
	Stateless bool
	// HeapMemoryMB is the default heap limit of a run, HeapMemoryCeilingMB the largest
	// limit that a run may request, both in MiB and at most MaxMemoryMB. Defaults: 64,
	// and 256 or HeapMemoryMB if that is more.
	HeapMemoryMB        int
	HeapMemoryCeilingMB int
	// TimeoutSecs is the default wall-clock limit of a run, in seconds, 1 to 300.
	// Default: 30.
	TimeoutSecs int
	// OutputMaxBytes is the maximum stored output per run. Default: 64 MiB. A negative
	// number is unlimited.
	OutputMaxBytes int64
	// MemoryMB is the memory for answers, heaps of runs and cached heaps together, in
	// MiB, from MinMemoryMB to MaxMemoryMB: three eighths for answers, half for runs,
	// the rest for the cache. Answers above it are refused with 503 and Retry-After;
	// runs wait. With the embedded NATS server it also limits the recorded output of
	// all runs: a sixteenth of it at once, then a thirty-second of it per second.
	// Default: 512, or half of the memory limit of the Go runtime if that is less. A
	// value above that limit is lowered to it.
	MemoryMB int
	// LimitMemory adjusts the memory limit of the Go runtime (debug.SetMemoryLimit) to
	// the budget and to the memory in use, never above the limit that the process had.
	// It is for processes that do nothing else. Close restores the former limit.
	LimitMemory bool
	// MinClientBytes is the minimum that a client must send or receive in each 30 s in
	// which the server waits for it. Default: 65536. With a negative number any
	// progress is enough.
	MinClientBytes int64
	// MCPServers are the tool servers that scripts may call; see ReadMCPServers.
	// Commands among them run as children of this process, without a sandbox.
	MCPServers []toolserver.Config
	// HostCallBodies selects what is recorded of the arguments and results of host
	// calls: "full", the default, or only the "hash" of each, which cannot be replayed.
	HostCallBodies string
	// Contexts bounds the conversation contexts.
	Contexts ContextOptions
	// SessionID is the named session of runs over stdio MCP.
	SessionID string
	// MCPFixtures are tools beside those of the product, for a test suite of MCP.
	// Default: none.
	MCPFixtures *mcp.Fixtures
	// Instructions and RunJSDescription replace the texts for MCP clients.
	Instructions     string
	RunJSDescription string
	// Sandbox selects the action on a machine that cannot sandbox workers completely:
	// "strict", the default, refuses to start; "best-effort" logs the missing layers
	// once and runs scripts.
	Sandbox string
	// WorkerReuse selects the runs that may share a worker process, one after another:
	// those of a "tenant" (the default), of a "session", or none ("run").
	WorkerReuse string
	// WorkerMaxRuns and WorkerMaxAge limit the runs and the age of a worker process.
	// Defaults: 1,000 runs and 1 h.
	WorkerMaxRuns int
	WorkerMaxAge  time.Duration
	// DrainWait is the time that Close gives to running scripts before they are handed
	// back. Default: 10 s. A negative duration hands them back at once.
	DrainWait time.Duration
	// AuditKey is the file of the key that signs checkpoints of the ledger. It is
	// created if it does not exist. Default: a file in DataDir. WitnessURL receives
	// every checkpoint. NoAudit keeps no proofs.
	AuditKey   string
	WitnessURL string
	NoAudit    bool
	// AcceptDamage starts although the ledger is damaged: the first event of a new
	// volume names what is lost, and the damaged files are quarantined. It has no
	// effect if nothing is damaged, and is needed for one start only.
	AcceptDamage bool
	// CheckBytes is how much of the newest part of each stream's files is checked for
	// damage before they are used. Default: 16 GiB. A negative number checks all.
	CheckBytes int64
	// SealEvery is the schedule of volume rotation: "month", the default, at the end of
	// the month (UTC) in which the volume was opened, or "never". SealBytes is the size
	// on disk at which a volume is sealed in any case. Default: 64 GiB. A negative
	// number is unlimited.
	SealEvery string
	SealBytes int64
	// DiskReserve is the space to keep free on the disk of DataDir, in bytes. Below it
	// no new run is accepted, and below a quarter of it nothing is recorded, until more
	// space is free. Default: 256 MiB, at most a twentieth of the file system. A
	// negative number keeps nothing free.
	DiskReserve int64
	// ScrubEvents is the number of events per second that the scrub re-reads and
	// compares with their hashes, at most 1 MiB per second. Default: 2,000. A negative
	// number turns the scrub off.
	ScrubEvents int
	// NoSync acknowledges events before they are on disk. Only for tests.
	NoSync bool
	// Version is reported to clients.
	Version string
	// Logger receives all log records. Default: they are discarded.
	Logger *slog.Logger
}

// Values of Options.Sandbox.
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

// slotShares returns how tenants share the slots.
func (o Options) slotShares() fairness.Slots {
	return fairness.Slots{
		Total: o.Slots, PerTenant: o.LimitSlots, Extra: max(o.ExtraSlots, 0), ExtraAfter: max(o.FairAfter, 0), Weights: o.TenantWeights,
	}
}
