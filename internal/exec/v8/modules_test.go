package v8

import (
	"encoding/json"
	"strings"
	"testing"

	"daybook/internal/exec/bundle"
)

// importing returns a script with what it imports.
func importing(t *testing.T, code, bindings string, b *bundle.Bundle, static ...Import) Script {
	t.Helper()
	encoded, err := b.Encode()
	if err != nil {
		t.Fatal(err)
	}
	modules, err := json.Marshal(Imports{Bundles: []json.RawMessage{encoded}, Static: static})
	if err != nil {
		t.Fatal(err)
	}
	return Script{Source: []byte(code), Name: "main.js#01234567", File: "main.js", Modules: modules, Bindings: []byte(bindings)}
}

func runImporting(t *testing.T, heap []byte, s Script) (Result, []byte) {
	t.Helper()
	i, err := New(Config{Heap: heap})
	if err != nil {
		t.Fatal(err)
	}
	defer i.Dispose()
	r, err := i.Run(s)
	if err != nil {
		t.Fatal(err)
	}
	saved, err := i.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return r, append([]byte(nil), saved...)
}

func textOf(r Result) string {
	if r.Text == nil {
		return "undefined"
	}
	return *r.Text
}

func TestImportedModules(t *testing.T) {
	b := &bundle.Bundle{
		Version: 1,
		Entries: map[string]string{"a": "npm:a@1.0.0/index.js", "fails": "npm:fails@1.0.0/index.js"},
		Modules: []bundle.Module{
			{ID: "npm:a@1.0.0/index.js", Code: `exports.count = 0; exports.next = () => ++exports.count; globalThis.evaluated = (globalThis.evaluated ?? 0) + 1; exports.where = () => new Error("x").stack`},
			{ID: "npm:fails@1.0.0/index.js", Code: `throw new Error("no luck")`},
		},
	}
	static := Import{Specifier: "a", Names: []string{"default", "next", "*"}}
	r, heap := runImporting(t, nil, importing(t, `next(); globalThis.kept = ns; [d.count, ns.count, evaluated, ns === await import("a")].join()`,
		`const d = __daybookImports[0], next = __daybookImports[1], ns = __daybookImports[2];`, b, static))
	if got := textOf(r); got != "1,1,1,true" {
		t.Errorf("the first run returned %s", got)
	}
	r, heap = runImporting(t, heap, importing(t, `console.log(ns); next(); [ns === kept, evaluated, ns.count, typeof __daybookImports].join()`,
		`const ns = __daybookImports[0];`, b, Import{Specifier: "a", Names: []string{"*"}}))
	if got := textOf(r); got != "true,1,2,undefined" {
		t.Errorf("the second run returned %s", got)
	}
	r, heap = runImporting(t, heap, Script{Source: []byte(`(await import("a")).next() + (await import("b").catch(e => " " + e))`), Name: "m#01234567"})
	if got := textOf(r); !strings.HasPrefix(got, "3 Error: Cannot find module 'b': only modules whose names") {
		t.Errorf("import() returned %s", got)
	}
	r, _ = runImporting(t, heap, importing(t, `1`, ``, b, Import{Specifier: "fails"}))
	if got := textOf(r); r.Status != Exception || !strings.Contains(got, "no luck") || !strings.Contains(got, "npm:fails@1.0.0/index.js:1:7") {
		t.Errorf("a module that throws gave %v %s", r.Status, got)
	}
	r, _ = runImporting(t, heap, importing(t, `1`, ``, b, Import{Specifier: "a", Names: []string{"nothing"}}))
	if got := textOf(r); !strings.Contains(got, "SyntaxError: The requested module 'a' does not provide an export named 'nothing'") {
		t.Errorf("a missing export gave %s", got)
	}
}
