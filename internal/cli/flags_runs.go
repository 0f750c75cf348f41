package cli

import (
	"math"
	"time"

	"daybook/embed"
)

// slotFlags are the flags of embed.SlotOptions.
type slotFlags struct {
	Slots         *int           `name:"max-concurrent-executions" option:"Slots.Total" example:"4" help:"Number of scripts that run at once. Default: the number of cores." placeholder:"N"`
	LimitSlots    int            `name:"limit-slots" option:"Slots.PerTenant" example:"2" help:"Scripts of one tenant that run at once; 0 is unlimited." default:"0" placeholder:"N"`
	TenantWeights map[string]int `name:"tenant-weights" option:"Slots.Weights" example:"acme=2" mapsep:"," help:"Relative shares of the slots while several tenants wait: tenant=N, 1 to 1000, or an object in the file of --config. A tenant that is not listed has 1." placeholder:"TENANT=N"`
	ExtraSlots    int            `name:"extra-slots" option:"Slots.Extra" help:"Number of additional slots for tenants that wait while others keep all slots; 0 is none." default:"2" placeholder:"N"`
	FairAfter     time.Duration  `name:"fair-after" option:"Slots.ExtraAfter" help:"Time that a tenant waits, while others keep all slots, before its script runs in an extra slot." default:"500ms" placeholder:"DURATION"`
}

func (f slotFlags) options() embed.SlotOptions {
	return embed.SlotOptions{Total: optional(f.Slots), PerTenant: f.LimitSlots, Weights: f.TenantWeights, Extra: zeroIsNone(f.ExtraSlots), ExtraAfter: zeroIsNone(f.FairAfter)}
}

// runFlags are the flags of embed.RunOptions.
type runFlags struct {
	Stateless      bool              `name:"stateless" option:"Runs.Stateless" help:"Run scripts in plain isolates, with the optimizing compiler and WebAssembly but without heaps; MCP offers only a blocking run_js."`
	NodeGlobals    bool              `name:"node-globals" option:"Runs.NodeGlobals" help:"Give scripts the globals of Node that libraries expect: Buffer, process and global."`
	WASMModules    map[string]string `name:"wasm-module" option:"Runs.WASMModules" example:"math=math.wasm" mapsep:"none" help:"WebAssembly module for runs without a heap: the global NAME has its exports, __wasm_NAME is the module. May be repeated; an object in the file of --config." placeholder:"NAME=FILE"`
	HeapMemoryMax  int               `name:"heap-memory-max" option:"Runs.HeapMB" help:"Default V8 heap limit of a run, in MB." default:"64" placeholder:"MB"`
	HeapCeiling    *int              `name:"heap-memory-ceiling" option:"Runs.HeapCeilingMB" example:"256" help:"Largest V8 heap limit that a run may request, in MB. Default: 256, or --heap-memory-max if that is more." placeholder:"MB"`
	Timeout        int               `name:"execution-timeout" option:"Runs.TimeoutSecs" help:"Default wall-clock limit of a run, in seconds, 1 to 300." default:"30" placeholder:"SECONDS"`
	OutputMaxBytes int64             `name:"output-max-bytes" option:"Runs.OutputMaxBytes" help:"Stored output per run, in bytes; 0 is unlimited." default:"67108864" placeholder:"BYTES"`
	DrainWait      time.Duration     `name:"drain-wait" option:"Runs.DrainWait" after:"worker-max-age" help:"Time that running scripts have at shutdown before they are handed back, to continue at the next start." default:"10s" placeholder:"DURATION"`
	Registry       string            `name:"registry" option:"Runs.Registry" help:"npm registry that packages are admitted from (daybook module add)." default:"https://registry.npmjs.org" placeholder:"URL"`
	JSRRegistry    string            `name:"jsr-registry" option:"Runs.JSRRegistry" help:"Registry for npm clients that JSR packages are admitted from." default:"https://npm.jsr.io" placeholder:"URL"`
}

func (f runFlags) options() embed.RunOptions {
	return embed.RunOptions{
		Stateless: f.Stateless, NodeGlobals: f.NodeGlobals, WASMModules: f.WASMModules, HeapMB: refuseZero(f.HeapMemoryMax), HeapCeilingMB: optional(f.HeapCeiling), TimeoutSecs: refuseZero(f.Timeout),
		OutputMaxBytes: zeroIsNone(f.OutputMaxBytes), DrainWait: zeroIsNone(f.DrainWait), Registry: f.Registry, JSRRegistry: f.JSRRegistry,
	}
}

// workerFlags are the flags of embed.WorkerOptions.
type workerFlags struct {
	Sandbox       string        `name:"sandbox" option:"Workers.Sandbox" help:"Action if the sandbox is incomplete: strict (refuse to start) or best-effort (log the missing layers and continue)." enum:"strict,best-effort" default:"strict"`
	WorkerReuse   string        `name:"worker-reuse" option:"Workers.Reuse" help:"Runs that may share a worker process, one after another: those of a tenant, of a session, or none (run)." enum:"tenant,session,run" default:"tenant"`
	WorkerMaxRuns int           `name:"worker-max-runs" option:"Workers.MaxRuns" help:"Number of runs after which a worker process is replaced." default:"1000" placeholder:"N"`
	WorkerMaxAge  time.Duration `name:"worker-max-age" option:"Workers.MaxAge" help:"Age at which a worker process is replaced." default:"1h" placeholder:"DURATION"`
	JIT           string        `name:"jit" option:"Workers.JIT" help:"Optimizing compiler in runs that save heaps: on (long computations are four to thirteen times faster, and scripts have more of V8 to attack) or off." enum:"on,off" default:"off"`
}

func (f workerFlags) options() embed.WorkerOptions {
	return embed.WorkerOptions{Sandbox: f.Sandbox, Reuse: f.WorkerReuse, MaxRuns: refuseZero(f.WorkerMaxRuns), MaxAge: refuseZero(f.WorkerMaxAge), JIT: f.JIT}
}

// resourceFlags are the flags of embed.ResourceOptions.
type resourceFlags struct {
	MemoryBudget  *int   `name:"memory-budget" option:"Resources.MemoryMB" example:"512" help:"Memory for answers, heaps of runs and cached heaps together, in MiB, 64 to 1048576. Default: 512, or half of the memory limit of the Go runtime if that is less." placeholder:"MIB"`
	MinClientRate int64  `name:"min-client-rate" option:"Resources.MinClientBytes" help:"Bytes that a client must send or receive in each 30 s in which the server waits for it; 0 requires any progress." default:"65536" placeholder:"BYTES"`
	DiskReserve   *int64 `name:"disk-reserve" option:"Resources.DiskReserve" mib:"" example:"256" after:"scrub-rate" help:"Space to keep free on the disk of --data-dir, in MiB, up to 1073741824; below it no new run is accepted. 0 keeps nothing free. Default: 256, at most 5 % of the disk." placeholder:"MIB"`
}

func (f resourceFlags) options() embed.ResourceOptions {
	o := embed.ResourceOptions{MemoryMB: optional(f.MemoryBudget), MinClientBytes: zeroIsNone(f.MinClientRate)}
	if f.DiskReserve != nil {
		// A value in MiB that does not fit in bytes is lowered to the largest one that does,
		// which is refused.
		o.DiskReserve = zeroIsNone(max(min(*f.DiskReserve, math.MaxInt64>>20), -1) << 20)
	}
	return o
}

// toolFlags are the flags of embed.ToolOptions.
type toolFlags struct {
	MCPServers     []string `name:"mcp-server" option:"Tools.Servers" sep:"none" help:"MCP server whose tools scripts may call, as name=command with arguments or name=https://host/path; may be repeated." placeholder:"NAME=COMMAND|URL"`
	MCPConfig      string   `name:"mcp-config" help:"File of MCP servers that scripts may call, in the mcpServers form of MCP clients; $${NAME} is replaced from the environment." placeholder:"FILE"`
	HostCallBodies string   `name:"host-call-bodies" option:"Tools.Bodies" help:"Recorded part of host calls: arguments and results (full), or only their hashes (hash)." enum:"full,hash" default:"full"`
}

func (f toolFlags) options() embed.ToolOptions { return embed.ToolOptions{Bodies: f.HostCallBodies} }

// readServers sets the tool servers, and the headers of fetches. It reads the files of
// --mcp-config and --fetch-header-config.
func (f engineFlags) readServers(o *embed.Options) error {
	var err error
	if o.Tools.Servers, err = embed.ReadMCPServers(f.MCPServers, f.MCPConfig); err != nil {
		return usageError{err}
	}
	if o.Fetch.Headers, err = embed.ReadFetchHeaders(f.FetchHeaders, f.FetchHeaderConfig); err != nil {
		return usageError{err}
	}
	return nil
}

// fetchFlags are the flags of embed.FetchOptions.
type fetchFlags struct {
	FetchPolicy        string        `name:"fetch-policy" option:"Fetch.Policy" help:"Rego file, directory of such files, or JSON file with several policies, that decides which HTTP requests scripts may send. Without it they send none." placeholder:"FILE|DIR"`
	FetchRule          string        `name:"fetch-policy-rule" option:"Fetch.Rule" help:"Rule of the policy that decides; several policies may name others." default:"data.mcp.fetch.allow" placeholder:"RULE"`
	FetchHeaders       []string      `name:"fetch-header" option:"Fetch.Headers" sep:"none" help:"Header to add to requests of scripts to one host, as host=HOST,header=NAME,value=VALUE; VALUE takes secrets as $${NAME} from the environment or as $${file:PATH}. With token_url=URL,client_id=ID,client_secret=VALUE in place of value, it has an access token of OAuth. May be repeated." placeholder:"RULE"`
	FetchHeaderConfig  string        `name:"fetch-header-config" help:"JSON file with headers to add to requests of scripts." placeholder:"FILE"`
	FetchAllowNetworks []network     `name:"fetch-allow-network" option:"Fetch.AllowNetworks" help:"Network that scripts may reach although it is not public, as address/bits; may be repeated." placeholder:"CIDR"`
	FetchRequestBytes  int           `name:"fetch-request-max-bytes" option:"Fetch.RequestMaxBytes" help:"Maximum size of the body of a request of a script, up to 655360." default:"524288" placeholder:"BYTES"`
	FetchResponseBytes int           `name:"fetch-response-max-bytes" option:"Fetch.ResponseMaxBytes" help:"Maximum size of the body of a response to a script, up to 11534336." default:"4194304" placeholder:"BYTES"`
	FetchHeaderBytes   int           `name:"fetch-header-max-bytes" option:"Fetch.HeaderMaxBytes" help:"Maximum size of the headers of a request of a script, and of a response, 1024 to 262144." default:"65536" placeholder:"BYTES"`
	FetchTimeout       time.Duration `name:"fetch-timeout" option:"Fetch.Timeout" help:"Time limit of a request of a script with its redirects, up to 5m." default:"30s" placeholder:"DURATION"`
}

func (f fetchFlags) options() embed.FetchOptions {
	return embed.FetchOptions{
		Policy: f.FetchPolicy, Rule: f.FetchRule, AllowNetworks: prefixes(f.FetchAllowNetworks), RequestMaxBytes: refuseZero(f.FetchRequestBytes), ResponseMaxBytes: refuseZero(f.FetchResponseBytes),
		HeaderMaxBytes: refuseZero(f.FetchHeaderBytes), Timeout: refuseZero(f.FetchTimeout),
	}
}

// mcpFlags are the flags of embed.MCPOptions.
type mcpFlags struct {
	SessionID        string `name:"session-id" option:"MCP.SessionID" help:"Named session to log runs over stdio MCP under." placeholder:"NAME"`
	Instructions     string `name:"instructions" option:"MCP.Instructions" help:"Instructions for MCP clients, in place of the usual ones." placeholder:"TEXT"`
	RunJSDescription string `name:"run-js-description" option:"MCP.RunJSDescription" help:"Description of the run_js tool, in place of the usual one." placeholder:"TEXT"`
}

func (f mcpFlags) options() embed.MCPOptions {
	return embed.MCPOptions{SessionID: f.SessionID, Instructions: f.Instructions, RunJSDescription: f.RunJSDescription}
}
