// Package wasm reads the WebAssembly modules that an operator gives to scripts, and has a
// worker check them: a broken module fails when the server starts, not when a script uses it.
package wasm

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"daybook/events"
	"daybook/runner"
)

// Limits of the modules of a server.
const (
	MaxModules = 100
	// MaxBytes is the maximum size of all modules together, in bytes.
	MaxBytes = 64 << 20
)

var namePattern = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]{0,63}$`)

// IsName reports whether a module can have a name, which is the name of a global. The global
// __wasm_NAME is the module itself, so no other module has such a name.
func IsName(name string) bool {
	return namePattern.MatchString(name) && !strings.HasPrefix(name, "__wasm_")
}

// CheckRecorded returns why no run can have these modules, or nil.
func CheckRecorded(list []events.WASMModule) error {
	if len(list) > MaxModules {
		return fmt.Errorf("%d WebAssembly modules: at most %d are allowed", len(list), MaxModules)
	}
	names := map[string]bool{}
	left := int64(MaxBytes)
	for _, m := range list {
		switch {
		case !IsName(m.Name) || names[m.Name]:
			return fmt.Errorf("WebAssembly module %.70q has no valid name, or that of another", m.Name)
		case m.Module.Size < 1 || m.Module.Size > left:
			return fmt.Errorf("WebAssembly module %s has %d bytes: all modules together have 1 to %d", m.Name, m.Module.Size, MaxBytes)
		}
		names[m.Name] = true
		left -= m.Module.Size
	}
	return nil
}

// checkTimeout bounds the time that all modules together take to be compiled and instantiated.
const checkTimeout = time.Minute

// Loader reads and checks modules.
type Loader struct {
	Workers runner.Workers
	// NodeGlobals and HeapLimitBytes are those of runs; see runner.Task.
	NodeGlobals    bool
	HeapLimitBytes int64
}

// Load reads the modules in files, by name, and returns them sorted by name. It compiles each,
// and makes an instance of those that need no imports. The error says what is wrong with a name
// or a file; it is the error of Workers.Run if no worker could check them.
func (l Loader) Load(ctx context.Context, files map[string]string) ([]runner.WASMModule, error) {
	if len(files) == 0 {
		return nil, nil
	}
	if len(files) > MaxModules {
		return nil, fmt.Errorf("read %d modules: at most %d are allowed", len(files), MaxModules)
	}
	var list []runner.WASMModule
	remaining := MaxBytes
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !IsName(name) {
			return nil, fmt.Errorf("%q is not a name for a global: use at most 64 of A-Z, a-z, 0-9, _ and $, no digit first, and no __wasm_ first", name)
		}
		module, err := read(files[name], remaining)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		remaining -= len(module)
		list = append(list, runner.WASMModule{Name: name, SHA256: events.Hash(module), Bytes: module})
	}
	if err := l.checkNames(ctx, list); err != nil {
		return nil, err
	}
	return list, l.compile(ctx, list)
}

// read reads a module of at most maxBytes.
func read(path string, maxBytes int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	module, err := io.ReadAll(io.LimitReader(f, int64(maxBytes)+1))
	switch {
	case err != nil:
		return nil, err
	case len(module) > maxBytes:
		return nil, fmt.Errorf("%s: all modules together have more than %d MiB", path, MaxBytes>>20)
	case !bytes.HasPrefix(module, []byte("\x00asm")):
		return nil, fmt.Errorf("%s is not a WebAssembly module in the binary format (.wasm)", path)
	}
	return module, nil
}

// checkNames refuses names that scripts cannot use, or that have another meaning.
func (l Loader) checkNames(ctx context.Context, list []runner.WASMModule) error {
	var taken []string
	err := l.run(ctx, nil, list, `filter(n => {
		if (n in globalThis || "__wasm_" + n in globalThis) return true;
		try { new Function("async () => { let " + n + " }"); return false } catch { return true }
	})`, &taken)
	if err == nil && len(taken) > 0 {
		err = fmt.Errorf("%s: JavaScript or this server has a global or a keyword of this name; choose another name", strings.Join(taken, ", "))
	}
	return err
}

// compile compiles the modules, makes instances, and sets HasImports.
func (l Loader) compile(ctx context.Context, list []runner.WASMModule) error {
	var found []struct {
		Error   string `json:"error"`
		Imports int    `json:"imports"`
	}
	err := l.run(ctx, list, list, `map(n => {
		try {
			const module = globalThis["__wasm_" + n], imports = WebAssembly.Module.imports(module).length;
			if (imports === 0) new WebAssembly.Instance(module);
			return {imports};
		} catch (e) { return {error: String(e)} }
	})`, &found)
	if err != nil {
		return err
	}
	if len(found) != len(list) {
		return fmt.Errorf("a worker checked %d modules of %d", len(found), len(list))
	}
	for i, f := range found {
		if f.Error != "" {
			return fmt.Errorf("%s: %s", list[i].Name, f.Error)
		}
		list[i].HasImports = f.Imports > 0
	}
	return nil
}

// run runs a script that calls a method of the array of all names, in a run that has the
// offered modules, and decodes its result.
func (l Loader) run(ctx context.Context, offered, list []runner.WASMModule, call string, result any) error {
	names := make([]string, len(list))
	for i, m := range list {
		names[i] = m.Name
	}
	quoted, err := json.Marshal(names)
	if err != nil {
		panic(err) // strings always encode
	}
	o, err := l.Workers.Run(ctx, runner.Task{
		Tenant: events.LedgerTenant, Code: fmt.Appendf(nil, "JSON.stringify(%s.%s)", quoted, call), WASMModules: offered, NodeGlobals: l.NodeGlobals,
		HeapLimitBytes: l.HeapLimitBytes, ArrayBufferLimitBytes: l.HeapLimitBytes, Timeout: checkTimeout, Start: time.Unix(0, 0),
	}, func(context.Context, []events.Line) error { return nil })
	switch {
	case err != nil:
		return fmt.Errorf("compile the modules: %w", err)
	case o.Status != events.StatusCompleted || o.Result == nil:
		return fmt.Errorf("compile %s: %s", strings.Join(names, ", "), o.Error)
	}
	if err := json.Unmarshal([]byte(*o.Result), result); err != nil {
		return fmt.Errorf("compile the modules: %w", err)
	}
	return nil
}
