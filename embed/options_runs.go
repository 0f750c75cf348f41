package embed

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"daybook/internal/exec/worker"
	"daybook/internal/modules/registry"
	"daybook/internal/resources/fairness"
	"daybook/internal/tools/toolserver"
	"daybook/internal/web/access"
	"daybook/ledger"
	"daybook/mcp"
)

// SlotOptions configure the number of scripts that run at once, and how tenants share
// it.
type SlotOptions struct {
	// Total is the number of scripts that run at once. Default: the number of cores.
	Total int
	// PerTenant is the maximum number of slots of one tenant. 0 is unlimited.
	PerTenant int
	// Weights are the relative shares of the slots while several tenants wait, each
	// from 1 to MaxWeight. A tenant that is not listed has weight 1.
	Weights map[string]int
	// Extra is the number of slots besides Total for tenants that wait without a slot
	// while others keep all slots. Default: 2. A negative number is none. The tenants
	// wait for ExtraAfter first. Default: 500 ms. A negative duration is no wait.
	Extra      int
	ExtraAfter time.Duration
}

// MaxWeight is the largest weight of a tenant.
const MaxWeight = 1000

// validate returns the errors of the fields.
func (o SlotOptions) validate() error {
	problems := []error{
		optionRange[int]{least: 1, most: maxProcesses}.check("Slots.Total", o.Total),
		optionRange[int]{most: maxProcesses, zero: "is unlimited"}.check("Slots.PerTenant", o.PerTenant),
		optionRange[int]{least: 1, most: maxProcesses, negative: "is none"}.check("Slots.Extra", o.Extra),
		optionRange[time.Duration]{least: 1, most: maxExtraAfter, negative: "is no wait"}.check("Slots.ExtraAfter", o.ExtraAfter),
	}
	for _, tenant := range slices.Sorted(maps.Keys(o.Weights)) {
		problems = append(problems, ofField("Slots.Weights", access.CheckTenant(tenant)))
		if w := o.Weights[tenant]; w < 1 || w > MaxWeight {
			problems = append(problems, outOfRange("Slots.Weights", " ", fmt.Sprintf("%s=%d", tenant, w), Range{Least: 1, Most: MaxWeight}))
		}
	}
	return errors.Join(problems...)
}

func (o SlotOptions) withDefaults() SlotOptions {
	setDefault(&o.Total, runtime.NumCPU())
	setDefault(&o.Extra, 2)
	setDefault(&o.ExtraAfter, 500*time.Millisecond)
	return o
}

// shares returns how tenants share the slots.
func (o SlotOptions) shares() fairness.Slots {
	return fairness.Slots{Total: o.Total, PerTenant: o.PerTenant, Extra: max(o.Extra, 0), ExtraAfter: max(o.ExtraAfter, 0), Weights: o.Weights}
}

// RunOptions configure the execution of runs.
type RunOptions struct {
	// Elsewhere starts no runner. Runs wait for a runner of another process.
	Elsewhere bool
	// Stateless runs every script in a plain isolate, with the optimizing compiler and
	// WebAssembly, but without restoring or saving heaps.
	Stateless bool
	// NodeGlobals gives scripts the globals of Node that libraries expect: Buffer, process
	// and global. Each run records it.
	NodeGlobals bool
	// WASMModules are the files of WebAssembly modules by name. In runs without a heap, the
	// global NAME has the exports of a module that needs no imports, and __wasm_NAME is the
	// module. At most 100 modules of together 64 MiB; each run records their hashes.
	WASMModules map[string]string
	// HeapMB is the default heap limit of a run, HeapCeilingMB the largest limit that a
	// run may request, both in MiB and at most MaxMemoryMB. Defaults: 64, and 256 or
	// HeapMB if that is more.
	HeapMB        int
	HeapCeilingMB int
	// TimeoutSecs is the default wall-clock limit of a run, in seconds, 1 to 300.
	// Default: 30.
	TimeoutSecs int
	// OutputMaxBytes is the maximum stored output per run. Default: 64 MiB. A negative
	// number is unlimited.
	OutputMaxBytes int64
	// DrainWait is the time that Close gives to running scripts before they are handed
	// back. Default: 10 s. A negative duration hands them back at once.
	DrainWait time.Duration
	// Registry is the address of the npm registry that packages are admitted from, JSRRegistry
	// that of the registry of JSR for npm clients. Defaults: https://registry.npmjs.org and
	// https://npm.jsr.io.
	Registry, JSRRegistry string
}

// validate returns the errors of the fields.
func (o RunOptions) validate() error {
	heap := optionRange[int]{least: 1, most: MaxMemoryMB, unit: " MB"}
	problems := []error{
		heap.check("Runs.HeapMB", o.HeapMB),
		heap.check("Runs.HeapCeilingMB", o.HeapCeilingMB),
		optionRange[int]{least: 1, most: 300}.check("Runs.TimeoutSecs", o.TimeoutSecs),
		optionRange[int64]{least: 1, most: maxStoredBytes, negative: "is unlimited"}.check("Runs.OutputMaxBytes", o.OutputMaxBytes),
		optionRange[time.Duration]{least: 1, negative: "is no wait"}.check("Runs.DrainWait", o.DrainWait),
	}
	if _, err := registry.New(cmp.Or(o.Registry, registry.NPM), cmp.Or(o.JSRRegistry, registry.JSR)); err != nil {
		problems = append(problems, fieldIs("Runs.Registry", "%s", err))
	}
	if heap := cmp.Or(o.HeapMB, defaultHeapMB); o.HeapCeilingMB > 0 && o.HeapCeilingMB < heap {
		problems = append(problems, fieldIs("Runs.HeapCeilingMB", "%d: it must not be below Runs.HeapMB, which is %d", o.HeapCeilingMB, heap))
	}
	return errors.Join(problems...)
}

// defaultHeapMB is the default of RunOptions.HeapMB.
const defaultHeapMB = 64

func (o RunOptions) withDefaults() RunOptions {
	setDefault(&o.HeapMB, defaultHeapMB)
	setDefault(&o.HeapCeilingMB, max(256, o.HeapMB))
	setDefault(&o.TimeoutSecs, 30)
	setDefault(&o.DrainWait, 10*time.Second)
	return o
}

// WorkerOptions configure the worker processes.
type WorkerOptions struct {
	// Sandbox selects the action on a machine that cannot sandbox workers completely:
	// "strict", the default, refuses to start; "best-effort" logs the missing layers
	// once and runs scripts.
	Sandbox string
	// Reuse selects the runs that may share a worker process, one after another: those
	// of a "tenant" (the default), of a "session", or none ("run").
	Reuse string
	// MaxRuns and MaxAge limit the runs and the age of a worker process. Defaults:
	// 1,000 runs and 1 h.
	MaxRuns int
	MaxAge  time.Duration
	// JIT is "on" if V8 optimizes runs that save heaps, which makes long computations four to
	// thirteen times faster and gives scripts more of V8 to attack; see the threat model. Start
	// fails if V8 does not pass a check of it. Default: "off". Runs without a heap always have
	// the optimizing compiler.
	JIT string
}

// Values of WorkerOptions.JIT.
const (
	jitOn  = "on"
	jitOff = "off"
)

// Values of WorkerOptions.Sandbox.
const (
	sandboxStrict     = "strict"
	sandboxBestEffort = "best-effort"
)

// validate returns the errors of the fields.
func (o WorkerOptions) validate() error {
	var problem error
	if o.Sandbox != "" && o.Sandbox != sandboxStrict && o.Sandbox != sandboxBestEffort {
		problem = ofField("Workers.Sandbox", fmt.Errorf("%q is unknown: choose %s or %s", o.Sandbox, sandboxStrict, sandboxBestEffort))
	}
	var jit error
	if o.JIT != "" && o.JIT != jitOn && o.JIT != jitOff {
		jit = ofField("Workers.JIT", fmt.Errorf("%q is unknown: choose %s or %s", o.JIT, jitOn, jitOff))
	}
	_, err := worker.ParseReuse(o.Reuse)
	return errors.Join(
		problem,
		jit,
		ofField("Workers.Reuse", err),
		optionRange[int]{least: 1}.check("Workers.MaxRuns", o.MaxRuns),
		optionRange[time.Duration]{least: 1}.check("Workers.MaxAge", o.MaxAge),
	)
}

// ResourceOptions bound the use of the machine.
type ResourceOptions struct {
	// MemoryMB is the memory for answers, heaps of runs and cached heaps together, in
	// MiB, from MinMemoryMB to MaxMemoryMB: three eighths for answers, half for runs,
	// the rest for the cache. Answers for which there is no memory are refused with 503
	// and Retry-After; runs wait. With the embedded NATS server, MemoryMB also limits the
	// recorded output of all runs: a sixteenth of MemoryMB at once, then a thirty-second
	// per second. Default: 512, or half of the memory limit of the Go runtime if that is
	// less. A value above the memory limit of the Go runtime is lowered to that limit.
	MemoryMB int
	// LimitMemory adjusts the memory limit of the Go runtime (debug.SetMemoryLimit) to
	// the budget and to the memory in use, never above the limit that the process had.
	// It is for processes that do nothing else. Close restores the former limit.
	LimitMemory bool
	// MinClientBytes is the minimum that a client must send or receive in each 30 s in
	// which the server waits for it. Default: 65536. With a negative number any
	// progress is enough.
	MinClientBytes int64
	// DiskReserve is the space to keep free on the disk of DataDir, in bytes. Below it
	// no new run is accepted, and below a quarter of it nothing is recorded, until more
	// space is free. Default: 256 MiB, at most a twentieth of the file system. A
	// negative number keeps nothing free.
	DiskReserve int64
}

// validate returns the errors of the fields.
func (o ResourceOptions) validate() error {
	return errors.Join(
		optionRange[int]{least: MinMemoryMB, most: MaxMemoryMB, unit: " MiB"}.check("Resources.MemoryMB", o.MemoryMB),
		optionRange[int64]{least: 1, most: maxClientBytes, unit: " bytes in 30 s", negative: "requires any progress"}.check("Resources.MinClientBytes", o.MinClientBytes),
		optionRange[int64]{least: 1, most: maxReserve, negative: "keeps nothing free"}.check("Resources.DiskReserve", o.DiskReserve),
	)
}

// withDefaults sets the default of MemoryMB, which depends on the memory limit of the Go
// runtime. It lowers a larger MemoryMB to that limit.
func (o ResourceOptions) withDefaults(log *slog.Logger) ResourceOptions {
	limit := debug.SetMemoryLimit(-1)
	setDefault(&o.MemoryMB, memoryMB(limit))
	if most := int(max(limit>>20, MinMemoryMB)); o.MemoryMB > most {
		log.Warn("the memory budget (--memory-budget) is above the memory limit of the Go runtime and is lowered to it; give the process more memory, or set GOMEMLIMIT",
			"asked_mib", o.MemoryMB, "budget_mib", most)
		o.MemoryMB = most
	}
	return o
}

// ToolServer is the configuration of one tool server.
type ToolServer = toolserver.Config

// ToolOptions configure the tools that scripts may call.
type ToolOptions struct {
	// Servers are the tool servers that scripts may call; see ReadMCPServers. Commands
	// among them run as children of this process, without a sandbox.
	Servers []ToolServer
	// Bodies selects the recorded part of the arguments and results of host calls:
	// "full", the default, or only the "hash" of each, which cannot be replayed.
	Bodies string
}

// validate returns the errors of the fields.
func (o ToolOptions) validate() error {
	var problem error
	if o.Bodies != "" && o.Bodies != hostCallsFull && o.Bodies != hostCallsHashed {
		problem = fieldIs("Tools.Bodies", "%q: choose %s or %s", o.Bodies, hostCallsFull, hostCallsHashed)
	}
	return errors.Join(ofField("Tools.Servers", toolserver.CheckAll(o.Servers)), problem)
}

// MCPOptions configure the MCP interface.
type MCPOptions struct {
	// SessionID is the named session of runs over stdio.
	SessionID string
	// Instructions and RunJSDescription replace the texts for clients.
	Instructions     string
	RunJSDescription string
	// Fixtures are tools beside those of the product, for a test suite of MCP.
	// Default: none.
	Fixtures *mcp.Fixtures
}

// validate returns the errors of the fields.
func (o MCPOptions) validate() error {
	if o.SessionID == "" {
		return nil
	}
	return ofField("MCP.SessionID", ledger.CheckSession(o.SessionID))
}
