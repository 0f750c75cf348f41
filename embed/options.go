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
)

// Options configure a Daybook. Only DataDir is required. The zero values of the other
// fields suit a program that opens no listeners. In every group the zero value of a
// field selects its default, and where a negative number is permitted it means none or
// unlimited.
type Options struct {
	// DataDir holds the streams, the projections and the socket. One process at a time
	// owns it: a second Start fails with ErrLocked, unless Owner.TakeOver is set.
	DataDir string
	// Version is reported to clients.
	Version string
	// Logger receives all log records. Default: they are discarded.
	Logger *slog.Logger
	// Progress, if set, is called by Rebuild with the position reached and the last
	// position.
	Progress func(done, total uint64)

	Owner     OwnerOptions
	HTTP      HTTPOptions
	Access    AccessOptions
	NATS      NATSOptions
	Slots     SlotOptions
	Runs      RunOptions
	Workers   WorkerOptions
	Resources ResourceOptions
	Tools     ToolOptions
	MCP       MCPOptions
	Contexts  ContextOptions
	Proof     ProofOptions
	Storage   StorageOptions
	Content   ContentOptions
	Webhooks  WebhookOptions
}

func (o Options) withDefaults() (Options, error) {
	var problems []error
	if o.DataDir == "" {
		problems = append(problems, fieldIs("DataDir", "empty: name the directory that holds the ledger"))
	}
	if (o.HTTP.CertFile == "") != (o.HTTP.KeyFile == "") {
		problems = append(problems, errors.New("HTTP.CertFile and HTTP.KeyFile belong together: give both or none"))
	}
	for _, host := range o.HTTP.Hosts {
		if err := web.CheckHost(host); err != nil {
			problems = append(problems, ofField("HTTP.Hosts", err))
		}
	}
	if o.HTTP.PublicURL != "" {
		u, err := url.Parse(o.HTTP.PublicURL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || web.CheckHost(u.Host) != nil || strings.Trim(u.Path, "/") != "" {
			problems = append(problems, fieldIs("HTTP.PublicURL", "%q: give a URL without a path, such as https://book.example.com", o.HTTP.PublicURL))
		} else {
			o.HTTP.PublicURL = u.Scheme + "://" + u.Host
			o.HTTP.Hosts = append(slices.Clip(o.HTTP.Hosts), u.Host)
		}
	}
	if o.NATS.URL != "" && o.NATS.Addr != "" {
		problems = append(problems, errors.New("NATS.URL and NATS.Addr exclude each other: an outside server does its own listening"))
	}
	for _, field := range []struct {
		name  string
		value int
	}{
		{"NATS.Replicas", o.NATS.Replicas},
		{"Slots.Total", o.Slots.Total},
		{"Runs.HeapMB", o.Runs.HeapMB},
		{"Runs.HeapCeilingMB", o.Runs.HeapCeilingMB},
		{"Runs.TimeoutSecs", o.Runs.TimeoutSecs},
		{"Workers.MaxRuns", o.Workers.MaxRuns},
		{"HTTP.MaxConnections", o.HTTP.MaxConnections},
		{"HTTP.MaxConnectionsPerAddress", o.HTTP.MaxConnectionsPerAddress},
		{"Resources.MemoryMB", o.Resources.MemoryMB},
	} {
		if field.value < 0 {
			problems = append(problems, fieldIs(field.name, "%d: it cannot be negative", field.value))
		}
	}
	for _, field := range []struct {
		name  string
		value int
	}{{"Runs.HeapMB", o.Runs.HeapMB}, {"Runs.HeapCeilingMB", o.Runs.HeapCeilingMB}} {
		if field.value > MaxMemoryMB {
			problems = append(problems, fieldIs(field.name, "%d: the most is %d", field.value, MaxMemoryMB))
		}
	}
	if o.Resources.MemoryMB > 0 && (o.Resources.MemoryMB < MinMemoryMB || o.Resources.MemoryMB > MaxMemoryMB) {
		problems = append(problems, fieldIs("Resources.MemoryMB", "%d: the range is %d to %d", o.Resources.MemoryMB, MinMemoryMB, MaxMemoryMB))
	}
	if o.MCP.SessionID != "" {
		if err := ledger.CheckSession(o.MCP.SessionID); err != nil {
			problems = append(problems, ofField("MCP.SessionID", err))
		}
	}
	if o.Workers.Sandbox != "" && o.Workers.Sandbox != sandboxStrict && o.Workers.Sandbox != sandboxBestEffort {
		problems = append(problems, ofField("Workers.Sandbox", fmt.Errorf("%q is unknown: choose %s or %s", o.Workers.Sandbox, sandboxStrict, sandboxBestEffort)))
	}
	if o.Content.HeapRetention != 0 && o.Content.HeapRetention < retention.MinAge {
		problems = append(problems, fieldIs("Content.HeapRetention", "%s: it must be %s or more, or 0 to keep all heaps", o.Content.HeapRetention, retention.MinAge))
	}
	if _, err := worker.ParseReuse(o.Workers.Reuse); err != nil {
		problems = append(problems, ofField("Workers.Reuse", err))
	}
	if err := toolserver.CheckAll(o.Tools.Servers); err != nil {
		problems = append(problems, ofField("Tools.Servers", err))
	}
	if o.Tools.Bodies != "" && o.Tools.Bodies != hostCallsFull && o.Tools.Bodies != hostCallsHashed {
		problems = append(problems, fieldIs("Tools.Bodies", "%q: choose %s or %s", o.Tools.Bodies, hostCallsFull, hostCallsHashed))
	}
	if o.Storage.SealEvery != "" && o.Storage.SealEvery != sealMonthly && o.Storage.SealEvery != sealNever {
		problems = append(problems, fieldIs("Storage.SealEvery", "%q: choose %s or %s", o.Storage.SealEvery, sealMonthly, sealNever))
	}
	if o.Storage.SealBytes > 0 && o.Storage.SealBytes < 1<<20 {
		problems = append(problems, fieldIs("Storage.SealBytes", "%d: the least is 1 MiB (1048576)", o.Storage.SealBytes))
	}
	if o.Slots.PerTenant < 0 {
		problems = append(problems, fieldIs("Slots.PerTenant", "%d: 0 is unlimited", o.Slots.PerTenant))
	}
	for _, tenant := range slices.Sorted(maps.Keys(o.Slots.Weights)) {
		if err := access.CheckTenant(tenant); err != nil {
			problems = append(problems, ofField("Slots.Weights", err))
		}
		if w := o.Slots.Weights[tenant]; w < 1 || w > MaxWeight {
			problems = append(problems, fmt.Errorf("Slots.Weights: the weight of tenant %q is %d: the range is 1 to %d", tenant, w, MaxWeight))
		}
	}
	if err := translog.CheckWitness(o.Proof.WitnessURL); err != nil {
		problems = append(problems, ofField("Proof.WitnessURL", err))
	}
	if err := o.Contexts.check(); err != nil {
		problems = append(problems, err)
	}
	if o.Workers.MaxAge < 0 {
		problems = append(problems, fieldIs("Workers.MaxAge", "%s: it cannot be negative", o.Workers.MaxAge))
	}
	if o.Runs.TimeoutSecs > 300 {
		problems = append(problems, fieldIs("Runs.TimeoutSecs", "%d: the range is 1 to 300", o.Runs.TimeoutSecs))
	}
	if err := errors.Join(problems...); err != nil {
		return o, asOption(fmt.Errorf("options: %w", err))
	}
	setDefault(&o.Storage.SealEvery, sealMonthly)
	setDefault(&o.Storage.SealBytes, 64<<30)
	setDefault(&o.Slots.Total, runtime.NumCPU())
	setDefault(&o.Slots.Extra, 2)
	setDefault(&o.Slots.ExtraAfter, 500*time.Millisecond)
	setDefault(&o.NATS.Replicas, 1)
	setDefault(&o.Runs.HeapMB, 64)
	setDefault(&o.Runs.HeapCeilingMB, max(256, o.Runs.HeapMB))
	setDefault(&o.Runs.TimeoutSecs, 30)
	limit := debug.SetMemoryLimit(-1)
	setDefault(&o.Resources.MemoryMB, memoryMB(limit))
	setDefault(&o.Runs.DrainWait, 10*time.Second)
	setDefault(&o.Storage.CheckBytes, 16<<30)
	setDefault(&o.Proof.ScrubEvents, 2000)
	if o.Runs.HeapMB > o.Runs.HeapCeilingMB {
		return o, asOption(fmt.Errorf("options: Runs.HeapMB (%d) is above Runs.HeapCeilingMB (%d)", o.Runs.HeapMB, o.Runs.HeapCeilingMB))
	}
	if o.Version == "" {
		o.Version = "devel"
	}
	if o.Owner.Notice == nil {
		o.Owner.Notice = func(string) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if most := int(max(limit>>20, MinMemoryMB)); o.Resources.MemoryMB > most {
		o.Logger.Warn("the memory budget (--memory-budget) is above the memory limit of the Go runtime and is lowered to it; give the process more memory, or set GOMEMLIMIT",
			"asked_mib", o.Resources.MemoryMB, "budget_mib", most)
		o.Resources.MemoryMB = most
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

// slotShares returns how tenants share the slots.
func (o Options) slotShares() fairness.Slots {
	return fairness.Slots{
		Total: o.Slots.Total, PerTenant: o.Slots.PerTenant, Extra: max(o.Slots.Extra, 0), ExtraAfter: max(o.Slots.ExtraAfter, 0), Weights: o.Slots.Weights,
	}
}
