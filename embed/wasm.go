package embed

import (
	"context"

	"daybook/internal/modules/wasm"
)

// openWASM reads and checks the WebAssembly modules for scripts.
func (d *Daybook) openWASM(ctx context.Context) (err error) {
	if d.pool == nil {
		return nil
	}
	l := wasm.Loader{Workers: d.pool, NodeGlobals: d.opts.Runs.NodeGlobals, HeapLimitBytes: int64(d.opts.Runs.HeapMB) << 20}
	d.wasm, err = l.Load(ctx, d.opts.Runs.WASMModules)
	return ofField("Runs.WASMModules", err)
}

// wasmNames returns the names of the WebAssembly modules for scripts.
func (d *Daybook) wasmNames() (names []string) {
	for _, m := range d.wasm {
		names = append(names, m.Name)
	}
	return names
}
