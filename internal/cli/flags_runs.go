package cli

import (
	"time"

	"daybook/embed"
)

// runFlags are the flags of embed.RunOptions.
type runFlags struct {
	Stateless      bool          `name:"stateless" option:"Runs.Stateless" help:"Run scripts in plain isolates, with the optimizing compiler and WebAssembly but without heaps; MCP offers only a blocking run_js."`
	HeapMemoryMax  int           `name:"heap-memory-max" option:"Runs.HeapMB" help:"Default V8 heap limit of a run, in MB." default:"64" placeholder:"MB"`
	HeapCeiling    *int          `name:"heap-memory-ceiling" option:"Runs.HeapCeilingMB" example:"256" help:"Largest V8 heap limit that a run may request, in MB. Default: 256, or --heap-memory-max if that is more." placeholder:"MB"`
	Timeout        int           `name:"execution-timeout" option:"Runs.TimeoutSecs" help:"Default wall-clock limit of a run, in seconds, 1 to 300." default:"30" placeholder:"SECONDS"`
	OutputMaxBytes int64         `name:"output-max-bytes" option:"Runs.OutputMaxBytes" help:"Stored output per run, in bytes; 0 is unlimited." default:"67108864" placeholder:"BYTES"`
	DrainWait      time.Duration `name:"drain-wait" option:"Runs.DrainWait" after:"worker-max-age" help:"Time that running scripts have at shutdown before they are handed back, to continue at the next start." default:"10s" placeholder:"DURATION"`
}

func (f runFlags) options() embed.RunOptions {
	return embed.RunOptions{
		Stateless: f.Stateless, HeapMB: refuseZero(f.HeapMemoryMax), HeapCeilingMB: optional(f.HeapCeiling), TimeoutSecs: refuseZero(f.Timeout),
		OutputMaxBytes: zeroIsNone(f.OutputMaxBytes), DrainWait: zeroIsNone(f.DrainWait),
	}
}
