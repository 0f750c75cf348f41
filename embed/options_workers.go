package embed

import (
	"errors"
	"fmt"
	"time"

	"daybook/internal/exec/worker"
)

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
}

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
	_, err := worker.ParseReuse(o.Reuse)
	return errors.Join(
		problem,
		ofField("Workers.Reuse", err),
		optionRange[int]{least: 1}.check("Workers.MaxRuns", o.MaxRuns),
		optionRange[time.Duration]{least: 1}.check("Workers.MaxAge", o.MaxAge),
	)
}
