package worker

import "fmt"

// Reuse says which runs may share a worker process, one after another. Runs of
// different tenants never do.
type Reuse string

// How far a worker is reused.
const (
	ReuseTenant  Reuse = "tenant"  // by all runs of its tenant; the default
	ReuseSession Reuse = "session" // by the runs of one session; those without one share with nobody
	ReuseRun     Reuse = "run"     // not at all
)

// ParseReuse parses one of the constants; empty is ReuseTenant.
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

// owner is whose runs a worker serves. The zero owner is nobody: the worker has
// not seen user code.
type owner struct{ tenant, session string }

// owner returns whose workers may run the task.
func (o Options) owner(t *Task) owner {
	if o.Reuse == ReuseSession {
		return owner{t.Tenant, t.Session}
	}
	return owner{tenant: t.Tenant}
}

// reusable tells whether the worker of an owner may serve again.
func (o Options) reusable(w owner) bool {
	switch {
	case w == owner{}:
		return true
	case o.Reuse == ReuseSession:
		return w.session != ""
	default:
		return o.Reuse != ReuseRun
	}
}
