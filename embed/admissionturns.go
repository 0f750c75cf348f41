package embed

import (
	"context"
	"fmt"
	"sync"

	"daybook/ledger"
)

// Limits of admissions of packages. One takes up to 128 MiB for what the registry says, up
// to 112 MiB for a tarball and its files, and the processor time to read both.
const (
	// runningAdmissions is the number of admissions of all tenants that run at a time.
	runningAdmissions = 2
	// waitingAdmissions is the number of admissions of a tenant that wait or run.
	waitingAdmissions = 64
)

var errAdmissionClosed = &ledger.Error{Code: ledger.CodeUnavailable, Message: "the server is shutting down; admit the package when it is back"}

// admissionTurns lets one admission of each tenant run at a time, and few of all tenants. A
// free place goes to the tenant that has waited longest. It is safe for concurrent use.
type admissionTurns struct {
	open   context.Context // is done from the start of Close on
	places chan struct{}

	mu      sync.Mutex
	tenants map[string]*tenantAdmissions // guarded by mu; those with admissions
}

// tenantAdmissions are the admissions of a tenant.
type tenantAdmissions struct {
	turn  chan struct{} // holds a value while one of them has the turn of the tenant
	count int           // guarded by admissionTurns.mu; that wait or run
}

// newAdmissionTurns returns turns that end when open is done.
func newAdmissionTurns(open context.Context) *admissionTurns {
	return &admissionTurns{open: open, places: make(chan struct{}, runningAdmissions), tenants: map[string]*tenantAdmissions{}}
}

// enter waits for the turn of an admission. The context that it returns ends when the server
// closes too. The caller MUST call leave once.
func (a *admissionTurns) enter(ctx context.Context, tenant string) (inside context.Context, leave func(), err error) {
	if a.open.Err() != nil {
		return nil, nil, errAdmissionClosed
	}
	own, err := a.join(tenant)
	if err != nil {
		return nil, nil, err
	}
	inside, stop := context.WithCancel(ctx)
	unbind := context.AfterFunc(a.open, stop)
	end := func() {
		unbind()
		stop()
		a.part(tenant)
	}
	if err := take(inside, own.turn); err != nil {
		end()
		return nil, nil, a.asClosed(err)
	}
	if err := take(inside, a.places); err != nil {
		<-own.turn
		end()
		return nil, nil, a.asClosed(err)
	}
	return inside, func() {
		<-a.places
		<-own.turn
		end()
	}, nil
}

// take puts a value into a channel when there is space.
func take(ctx context.Context, c chan<- struct{}) error {
	select {
	case c <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (a *admissionTurns) asClosed(err error) error {
	if a.open.Err() != nil {
		return errAdmissionClosed
	}
	return err
}

// join counts an admission of a tenant.
func (a *admissionTurns) join(tenant string) (*tenantAdmissions, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	own := a.tenants[tenant]
	if own == nil {
		own = &tenantAdmissions{turn: make(chan struct{}, 1)}
		a.tenants[tenant] = own
	}
	if own.count >= waitingAdmissions {
		return nil, &ledger.Error{Code: ledger.CodeExhausted, Message: fmt.Sprintf("%d admissions of packages of this tenant wait, and they run one after the other; try again when some have ended", own.count)}
	}
	own.count++
	return own, nil
}

// part ends what join began.
func (a *admissionTurns) part(tenant string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	own := a.tenants[tenant]
	if own.count--; own.count == 0 {
		delete(a.tenants, tenant)
	}
}
