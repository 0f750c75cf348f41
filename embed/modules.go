package embed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"daybook/events"
	"daybook/httpapi"
	"daybook/internal/modules"
	"daybook/internal/modules/registry"
	"daybook/ledger"
)

// admissionTime is the time limit of an admission, without the wait for its turn.
const admissionTime = 5 * time.Minute

// packages implements httpapi.Modules.
type packages struct {
	*ledger.Ledger
	registry *registry.Client
	d        *Daybook
	turns    *admissionTurns
}

func (d *Daybook) newPackages() (packages, error) {
	client, err := registry.New(cmp.Or(d.opts.Runs.Registry, registry.NPM), cmp.Or(d.opts.Runs.JSRRegistry, registry.JSR))
	open, stop := context.WithCancel(context.Background())
	d.stopAdmissions = stop
	d.packages = packages{d.ledger, client, d, newAdmissionTurns(open)}
	return d.packages, err
}

// AdmitPackage lets scripts of the default tenant import a package of the registry, given as
// NAME, NAME@RANGE or jsr:@SCOPE/NAME. It returns the packages that were not admitted before:
// the package and its dependencies. An error of type *ledger.Error with CodeUnavailable may pass.
func (d *Daybook) AdmitPackage(ctx context.Context, specifier string) ([]events.AdmittedPackage, error) {
	admitted, _, err := d.packages.Admit(ctx, events.DefaultTenant, specifier, events.Actor{Principal: "embedder", Transport: "embed"})
	if err != nil {
		return nil, err
	}
	return admitted.Packages, nil
}

// Admit implements httpapi.Modules.
func (p packages) Admit(ctx context.Context, tenant, specifier string, actor events.Actor) (*events.ModuleAdmitted, uint64, error) {
	if err := p.d.disk.Low(); err != nil {
		return nil, 0, fmt.Errorf("admit a package: %w", err)
	}
	ctx, leave, err := p.turns.enter(ctx, tenant)
	if err != nil {
		return nil, 0, err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, admissionTime)
	defer cancel()
	d, seq, err := modules.Admit(ctx, p.Ledger, p.registry, tenant, specifier, actor)
	if _, answered := errors.AsType[*ledger.Error](err); err != nil && !answered {
		switch {
		case modules.IsRefusal(err):
			return nil, 0, &httpapi.ModuleError{Err: err}
		case p.turns.open.Err() != nil:
			return nil, 0, errAdmissionClosed
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			err = fmt.Errorf("the registry did not send the package and its dependencies within %s: %w", admissionTime, err)
		}
		return nil, 0, &ledger.Error{Code: ledger.CodeUnavailable, Message: fmt.Sprintf("admit %s: %s", ledger.Excerpt(specifier), err), Err: err}
	}
	return d, seq, err
}
