package worker

import (
	"fmt"

	"daybook/runner"
)

// Reuse selects which runs may share a worker process, one after another. Runs of different
// tenants never share one.
type Reuse string

// Values of Reuse.
const (
	ReuseTenant  Reuse = "tenant"  // all runs of a tenant share workers; the default
	ReuseSession Reuse = "session" // the runs of one session share workers; a run without a session shares with no other run
	ReuseRun     Reuse = "run"     // each run has a worker of its own
)

// ParseReuse parses the value of one of the constants. Empty is ReuseTenant.
func ParseReuse(s string) (Reuse, error) {
	switch r := Reuse(s); r {
	case "":
		return ReuseTenant, nil
	case ReuseTenant, ReuseSession, ReuseRun:
		return r, nil
	default:
		return "", fmt.Errorf("workers cannot be reused by %q: choose %s, %s or %s", s, ReuseTenant, ReuseSession, ReuseRun)
	}
}

// owner identifies the runs that a worker serves. A worker with the zero owner is fresh: it
// has run no user code.
type owner struct{ tenant, session string }

// owner returns the owner of the workers that may run the task.
func (o Options) owner(t *runner.Task) owner {
	if o.Reuse == ReuseSession {
		return owner{t.Tenant, t.Session}
	}
	return owner{tenant: t.Tenant}
}

// isReusable reports whether a worker of owner w may be used for another run.
func (o Options) isReusable(w owner) bool {
	switch {
	case w == owner{}:
		return true
	case o.Reuse == ReuseSession:
		return w.session != ""
	default:
		return o.Reuse != ReuseRun
	}
}
