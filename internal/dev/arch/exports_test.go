package arch_test

import (
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"

	"daybook/internal/dev/tier"
)

// keptExports are exported names without a user in another package, by the reason why they
// are exported.
var keptExports = map[string][]string{
	"programs outside the module use it": {
		"embed.Daybook.MCPServers", "embed.Daybook.ServeMCP", "embed.ErrClosed", "embed.ErrOwnerEnded", "embed.FetchOAuth", "embed.MaxMemoryMB", "embed.MaxWeight", "embed.MinMemoryMB",
		"events.NoteSubject", "events.ReplaySubject", "events.ShredSubject", "events.Type.OfSession",
	},
	"it is one of several names, and other packages use the others": {
		"events.ArtifactMaxMIME", "internal/policy.MaxBytes", "internal/policy.MaxFiles",
		"internal/exec/sandbox.ClosedFiles", "internal/exec/sandbox.DataLimit", "internal/exec/sandbox.Limits", "internal/exec/sandbox.NoCapabilities",
		"internal/exec/sandbox.NoNewPrivileges", "internal/exec/sandbox.NotDumpable", "internal/exec/sandbox.ParentDeath",
		"internal/web.ErrOtherSite", "ledger.BreakCatalogChanged", "ledger.BreakEngineChanged", "ledger.BreakPrincipalChanged", "ledger.ReasonHistoryLost", "ledger.ReasonTurnSkipped",
		"runner.ReasonHeapCollected", "runner.ReasonHeapDamaged", "runner.ReasonHeapEngineMismatch", "runner.ReasonHeapUnavailable",
		"runner.ReasonSourceDamaged", "runner.ReasonSourceSealed",
	},
	"it is a value of answers and events": {
		"internal/exec/replay.ReasonAnswerNotKept", "internal/exec/replay.ReasonDamaged", "internal/exec/replay.ReasonEngine",
		"internal/exec/replay.ReasonHeapCollected", "internal/exec/replay.ReasonLimits", "internal/exec/replay.ReasonMissingCall", "internal/exec/replay.ReasonNoKeys",
		"internal/exec/replay.ReasonUnanswered",
		"internal/exec/replay.ReasonNotExecuted", "internal/exec/replay.ReasonTimeout",
		"internal/globals.Accessor", "internal/globals.Lexical", "internal/globals.Property",
	},
	"comments of other packages name it":            {"internal/exec/platform.Error", "internal/policy.HashFiles"},
	"the OpenAPI document has its name":             {"httpapi.Proof"},
	"other packages implement it without naming it": {"audit.HeapVerifier", "internal/exec/v8.ArtifactOutput"},
	"the parser of the command line calls it":       {"internal/cli/settings.ConfigFlag.BeforeResolve"},
	"huma reads embedded structs of inputs and answers only if their types are exported": {
		"httpapi.OneContext", "httpapi.OneExecution", "httpapi.OneHeap", "httpapi.OneSession", "httpapi.OneWebhook",
		"httpapi.Reading", "httpapi.ReplayInput", "httpapi.Written",
	},
}

// TestExportedNamesHaveUsers fails for an exported function, type, variable, constant or
// method that no other package uses. The external tests of a package do not count. A type
// is also used if it appears in a used declaration, a constant if its type is exported,
// and a method if an interface has one with its name.
func TestExportedNamesHaveUsers(t *testing.T) {
	t.Parallel()
	tier.NightlyOnly(t, "the names that packages export change rarely")
	pkgs, err := packages.Load(&packages.Config{
		Dir: "../../..", Tests: true, Context: t.Context(),
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports | packages.NeedDeps,
	}, "./...")
	if err != nil {
		t.Fatal(err)
	}
	if n := packages.PrintErrors(pkgs); n > 0 || len(pkgs) < 50 {
		t.Fatalf("%d packages are loaded with %d errors", len(pkgs), n)
	}
	x := exports{module: modulePath(t, "../../.."), declared: map[token.Position]export{}, used: map[token.Position]bool{}, ofInterfaces: methodsOfLibraries()}
	for _, p := range pkgs {
		x.add(p)
	}
	x.markReachable()
	kept, unused := map[string]bool{}, map[string]bool{}
	for _, names := range keptExports {
		for _, name := range names {
			kept[name] = true
		}
	}
	for at, e := range x.declared {
		if x.used[at] || e.isMethod && x.ofInterfaces[e.object.Name()] {
			continue
		}
		unused[e.name] = true
		if !kept[e.name] {
			t.Errorf("%s:%d: no other package uses %s: unexport it, or give a reason in keptExports", at.Filename, at.Line, e.name)
		}
	}
	for name := range kept {
		if !unused[name] {
			t.Errorf("keptExports has %s, which does not exist or is used", name)
		}
	}
}

// export is an exported declaration: its name with the path of its package, without the
// path of the module, and for a method with its type.
type export struct {
	name     string
	object   types.Object
	isMethod bool
}

// exports are the exported declarations of the module by position, because a package is
// loaded more than once, with and without its tests.
type exports struct {
	module       string
	fset         *token.FileSet
	declared     map[token.Position]export
	used         map[token.Position]bool
	ofInterfaces map[string]bool
}

// methodsOfLibraries returns names of methods that libraries call through interfaces or by
// name.
func methodsOfLibraries() map[string]bool {
	names := map[string]bool{}
	for _, name := range strings.Fields(`Error Unwrap Is As String GoString Format MarshalJSON UnmarshalJSON MarshalText UnmarshalText
		Read Write Close Seek ReadAt WriteAt ReadFrom WriteTo ServeHTTP Scan Value Flush Hijack Handle Enabled WithAttrs WithGroup LogValue
		Describe Collect Lock Unlock Run Help AfterApply BeforeApply Schema TransformSchema Resolve ContentType`) {
		names[name] = true
	}
	return names
}

// add adds the declarations and the uses of a package.
func (x *exports) add(p *packages.Package) {
	x.fset = p.Fset
	for _, o := range p.TypesInfo.Defs {
		if o == nil || !o.Exported() || strings.HasSuffix(x.position(o).Filename, "_test.go") {
			continue
		}
		e := export{name: x.belowModule(p.PkgPath) + "." + o.Name(), object: o}
		if f, ok := o.(*types.Func); ok {
			if receiver := f.Signature().Recv(); receiver != nil {
				named := namedOf(receiver.Type())
				if named == nil || !named.Obj().Exported() || types.IsInterface(named) {
					continue
				}
				e.name, e.isMethod = x.belowModule(p.PkgPath)+"."+named.Obj().Name()+"."+o.Name(), true
			}
		} else if o.Parent() != p.Types.Scope() {
			continue // a field, or a local name
		}
		if c, ok := o.(*types.Const); ok {
			if named := namedOf(c.Type()); named != nil && named.Obj().Exported() && named.Obj().Pkg() == o.Pkg() {
				continue
			}
		}
		x.declared[x.position(o)] = e
	}
	for _, o := range p.TypesInfo.Uses {
		if o == nil || o.Pkg() == nil || withoutTest(o.Pkg().Path()) == withoutTest(p.PkgPath) {
			continue
		}
		if f, ok := o.(*types.Func); ok {
			o = f.Origin()
		}
		x.used[x.position(o)] = true
	}
	for _, v := range p.TypesInfo.Types {
		if i, ok := v.Type.Underlying().(*types.Interface); ok {
			for m := range i.Methods() {
				x.ofInterfaces[m.Name()] = true
			}
		}
	}
}

// markReachable marks the types that appear in used declarations as used.
func (x *exports) markReachable() {
	pending := slices.Collect(maps.Keys(x.used))
	for len(pending) > 0 {
		e, ok := x.declared[pending[0]]
		pending = pending[1:]
		if !ok {
			continue
		}
		of := e.object.Type()
		if name, ok := e.object.(*types.TypeName); ok && !name.IsAlias() {
			for p := range e.object.Type().(*types.Named).TypeParams().TypeParams() {
				pending = x.mark(p.Constraint(), pending)
			}
			of = of.Underlying()
		}
		pending = x.mark(of, pending)
	}
}

// mark marks the named types in a type as used, and appends those that were not.
func (x *exports) mark(of types.Type, pending []token.Position) []token.Position {
	name := func(o types.Object) {
		if at := x.position(o); o.Pkg() != nil && !x.used[at] {
			x.used[at] = true
			pending = append(pending, at)
		}
	}
	all := func(list ...types.Type) {
		for _, one := range list {
			pending = x.mark(one, pending)
		}
	}
	switch of := of.(type) {
	case *types.Alias:
		name(of.Obj())
		all(of.Rhs())
	case *types.Named:
		name(of.Obj())
		for arg := range of.TypeArgs().Types() {
			all(arg)
		}
	case *types.Pointer:
		all(of.Elem())
	case *types.Slice:
		all(of.Elem())
	case *types.Array:
		all(of.Elem())
	case *types.Chan:
		all(of.Elem())
	case *types.Map:
		all(of.Key(), of.Elem())
	case *types.Signature:
		for p := range of.TypeParams().TypeParams() {
			all(p.Constraint())
		}
		for v := range of.Params().Variables() {
			all(v.Type())
		}
		for v := range of.Results().Variables() {
			all(v.Type())
		}
	case *types.Struct:
		for f := range of.Fields() {
			if f.Exported() || f.Embedded() {
				all(f.Type())
			}
		}
	case *types.Interface:
		for m := range of.ExplicitMethods() {
			all(m.Type())
		}
		for e := range of.EmbeddedTypes() {
			all(e)
		}
	}
	return pending
}

func (x *exports) position(o types.Object) token.Position { return x.fset.Position(o.Pos()) }

// namedOf returns the named type of a type or of the type that it points to, or nil.
func namedOf(t types.Type) *types.Named {
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	named, _ := t.(*types.Named)
	return named
}

// withoutTest returns the path of the package that a package tests, or its own path.
func withoutTest(path string) string { return strings.TrimSuffix(path, "_test") }

// belowModule returns the path of a package below the module.
func (x *exports) belowModule(path string) string {
	return strings.TrimPrefix(withoutTest(path), x.module+"/")
}
