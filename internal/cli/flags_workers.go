package cli

import (
	"time"

	"daybook/embed"
)

// workerFlags are the flags of embed.WorkerOptions.
type workerFlags struct {
	Sandbox       string        `name:"sandbox" option:"Workers.Sandbox" help:"Action if the sandbox is incomplete: strict (refuse to start) or best-effort (log the missing layers and continue)." enum:"strict,best-effort" default:"strict"`
	WorkerReuse   string        `name:"worker-reuse" option:"Workers.Reuse" help:"Runs that may share a worker process, one after another: those of a tenant, of a session, or none (run)." enum:"tenant,session,run" default:"tenant"`
	WorkerMaxRuns int           `name:"worker-max-runs" option:"Workers.MaxRuns" help:"Number of runs after which a worker process is replaced." default:"1000" placeholder:"N"`
	WorkerMaxAge  time.Duration `name:"worker-max-age" option:"Workers.MaxAge" help:"Age at which a worker process is replaced." default:"1h" placeholder:"DURATION"`
}

func (f workerFlags) options() embed.WorkerOptions {
	return embed.WorkerOptions{Sandbox: f.Sandbox, Reuse: f.WorkerReuse, MaxRuns: refuseZero(f.WorkerMaxRuns), MaxAge: refuseZero(f.WorkerMaxAge)}
}
