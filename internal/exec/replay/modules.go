package replay

import (
	"context"

	"daybook/ledger"
	"daybook/runner"
)

// recordedModules provides what the script of a run imported, from its record. It resolves
// nothing: packages may have been removed since.
type recordedModules struct{ rec *ledger.Recording }

// Bundle implements runner.Modules. A run that was stopped may have no record of them.
func (m recordedModules) Bundle(ctx context.Context, specifiers []string) ([]byte, error) {
	if m.rec.Modules == nil {
		return nil, &runner.RecordEndsError{}
	}
	return runner.RecordedBundle(ctx, m.rec.Modules, specifiers)
}
