package runner

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"daybook/events"
	"daybook/ledger"
)

// WASMModule is a WebAssembly module that a script can use.
type WASMModule struct {
	// Name is the name of the global with the exports of the module; __wasm_NAME is the
	// module itself.
	Name string
	// SHA256 is the hash of Bytes, 64 lowercase hex characters. Bytes is the module in the
	// binary format; it MUST NOT be modified.
	SHA256 string
	Bytes  []byte
	// HasImports is true for a module that needs imports, which has no global NAME.
	HasImports bool
}

// fetchWASM sets the WebAssembly modules of a run: those of the first attempt, or the modules
// of this server, which are then stored for the tenant. A run that leaves a heap has none.
func (r *Runner) fetchWASM(ctx context.Context, plan ledger.Plan, in *input) (err error) {
	req := plan.Request
	switch {
	case req.Stateful:
		return nil
	case plan.First == nil:
		in.wasm = r.opts.WASMModules
		in.wasmRecord, err = r.storedWASM.record(ctx, r.opts.Ledger, req.Tenant, in.wasm)
		return err
	}
	in.wasmRecord = plan.First.WASMModules
	for _, m := range in.wasmRecord {
		module := WASMModule{Name: m.Name, SHA256: m.Module.SHA256, HasImports: m.HasImports}
		if i := slices.IndexFunc(r.opts.WASMModules, func(o WASMModule) bool { return o.SHA256 == module.SHA256 }); i >= 0 {
			module.Bytes = r.opts.WASMModules[i].Bytes
		} else if module.Bytes, in.refusal, err = r.readText(ctx, req, &events.Body{Blob: &m.Module}, "WebAssembly module "+m.Name); err != nil || in.refusal != nil {
			return err
		}
		in.wasm = append(in.wasm, module)
	}
	return nil
}

// wasmStoredFor is how long a stored module counts as stored. The store keeps a text that no
// event names for at least half an hour after StoreWASM.
const wasmStoredFor = 10 * time.Minute

// maxStoredWASM limits the tenants and modules that a storedWASM remembers.
const maxStoredWASM = 10_000

// storedWASM remembers which modules are stored for which tenants, because hashing a large
// module takes longer than a small run.
type storedWASM struct {
	mu    sync.Mutex              // guards until
	until map[[2]string]time.Time // by tenant and hash
}

// record stores modules for a tenant and returns what the started event of a run says.
func (s *storedWASM) record(ctx context.Context, l ModuleLog, tenant string, modules []WASMModule) (list []events.WASMModule, err error) {
	for _, m := range modules {
		stored := events.BlobRef{SHA256: m.SHA256, Size: int64(len(m.Bytes))}
		if key := [2]string{tenant, m.SHA256}; !s.has(key) {
			if stored, err = l.StoreWASM(ctx, tenant, m.Bytes); err != nil {
				return nil, fmt.Errorf("store the WebAssembly module %s: %w", m.Name, err)
			}
			s.add(key)
		}
		list = append(list, events.WASMModule{Name: m.Name, Module: stored, HasImports: m.HasImports})
	}
	return list, nil
}

func (s *storedWASM) has(key [2]string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.until[key])
}

func (s *storedWASM) add(key [2]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if len(s.until) >= maxStoredWASM {
		maps.DeleteFunc(s.until, func(_ [2]string, until time.Time) bool { return now.After(until) })
	}
	if s.until == nil || len(s.until) >= maxStoredWASM {
		s.until = map[[2]string]time.Time{}
	}
	s.until[key] = now.Add(wasmStoredFor)
}
