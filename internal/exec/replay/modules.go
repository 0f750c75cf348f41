package replay

import (
	"context"
	"errors"
	"fmt"

	"daybook/events"
	"daybook/internal/modules/wasm"
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

// wasmModules returns the WebAssembly modules that the run could use, from its record. The record
// of an export can say anything, so it is checked before a text is read. The error is
// events.ErrDamaged for modules that no run can have.
func (p *replay) wasmModules(ctx context.Context) (list []runner.WASMModule, err error) {
	recorded := p.rec.Started.WASMModules
	if len(recorded) == 0 {
		return nil, nil
	}
	if p.rec.Request.Stateful {
		return nil, fmt.Errorf("a run with a heap has WebAssembly modules: %w", events.ErrDamaged)
	}
	if err := wasm.CheckRecorded(recorded); err != nil {
		return nil, fmt.Errorf("%w: %w", events.ErrDamaged, err)
	}
	read := map[string][]byte{}
	for _, m := range recorded {
		hash := m.Module.SHA256
		if read[hash] == nil {
			if read[hash], err = p.rec.Text(ctx, &events.Body{Blob: &m.Module}); errors.Is(err, events.ErrNotFound) {
				return nil, fmt.Errorf("the WebAssembly module %s of the run, with SHA-256 %s, is not in the blob store: %w", m.Name, hash, events.ErrNotFound)
			} else if err != nil {
				return nil, fmt.Errorf("read the WebAssembly module %s of the run: %w", m.Name, err)
			}
		}
		if int64(len(read[hash])) != m.Module.Size {
			return nil, fmt.Errorf("the WebAssembly module %s has %d bytes, not the recorded %d: %w", m.Name, len(read[hash]), m.Module.Size, events.ErrDamaged)
		}
		list = append(list, runner.WASMModule{Name: m.Name, SHA256: hash, HasImports: m.HasImports, Bytes: read[hash]})
	}
	return list, nil
}
