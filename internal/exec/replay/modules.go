package replay

import (
	"context"

	"daybook/events"
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

// wasmModules returns the WebAssembly modules that the run could use, from its record.
func (p *replay) wasmModules(ctx context.Context) (list []runner.WASMModule, err error) {
	for _, m := range p.rec.Started.WASMModules {
		module := runner.WASMModule{Name: m.Name, SHA256: m.Module.SHA256, HasImports: m.HasImports}
		if module.Bytes, err = p.rec.Text(ctx, &events.Body{Blob: &m.Module}); err != nil {
			return nil, err
		}
		list = append(list, module)
	}
	return list, nil
}
