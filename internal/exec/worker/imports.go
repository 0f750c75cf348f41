package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"daybook/internal/exec/bundle"
	"daybook/internal/exec/typescript"
	"daybook/internal/exec/v8"
)

// linked is a script whose imports are resolved.
type linked struct {
	code     []byte // the script without its import statements
	modules  []byte // v8.Script.Modules
	bindings []byte // v8.Script.Bindings
}

// linkImports resolves the imports of a script: files of the run, built-in modules, and packages,
// which the parent provides. Errors are a *sourceError, errStopped, or an error of the pipe.
func (s *server) linkImports(j *job) (*linked, error) {
	found, err := typescript.FindImports(j.code)
	if err != nil {
		return nil, &sourceError{syntaxErrorText(err, fileName(j.FileName))}
	}
	if found == nil {
		return &linked{code: j.code}, nil
	}
	var files map[string]string
	if len(j.files) > 0 {
		if err := json.Unmarshal(j.files, &files); err != nil {
			return nil, &sourceError{"The files of the run are malformed: " + err.Error()}
		}
	}
	local := &bundle.Bundle{Version: bundle.Version, Entries: map[string]string{}, Problems: map[string]string{}, Modules: []bundle.Module{}}
	wanted, relative := classify(found, local)
	if len(relative) > 0 {
		built, err := bundle.BuildFiles(files, relative)
		if refused, ok := errors.AsType[*bundle.Error](err); ok {
			return nil, &sourceError{"SyntaxError: " + refused.Text}
		} else if err != nil {
			return nil, &sourceError{"The files of the run cannot be read: " + err.Error()}
		}
		addEntries(local, built.Bundle)
		local.Modules = built.Bundle.Modules
		wanted = append(wanted, built.Packages...)
	}
	slices.Sort(wanted)
	wanted = slices.Compact(wanted)
	imports := v8.Imports{Bundles: []json.RawMessage{}, Static: []v8.Import{}}
	known := &bundle.Bundle{Entries: map[string]string{}, Problems: map[string]string{}}
	switch {
	case len(wanted) > maxImports:
		return nil, &sourceError{fmt.Sprintf("SyntaxError: the script imports %d packages, at most %d are allowed", len(wanted), maxImports)}
	case len(wanted) > 0 && !j.HasModules:
		for _, w := range wanted {
			local.Problems[w] = "this runner provides no packages"
		}
	case len(wanted) > 0:
		answer, err := s.requestModules(wanted)
		if err != nil {
			return nil, err
		}
		if answer.err != "" {
			return nil, &sourceError{answer.err}
		}
		packages, err := bundle.Decode(answer.encoded)
		if err != nil {
			return nil, &sourceError{"The modules of the run cannot be read: " + err.Error()}
		}
		addEntries(known, packages)
		imports.Bundles = append(imports.Bundles, answer.encoded)
	}
	encoded, err := local.Encode()
	if err != nil {
		return nil, &sourceError{"SyntaxError: " + err.Error()}
	}
	imports.Bundles = append(imports.Bundles, encoded)
	addEntries(known, local)
	if err := checkStatic(found, known, fileName(j.FileName)); err != nil {
		return nil, err
	}
	l := &linked{code: found.Code}
	imports.Static, l.bindings = declarations(found)
	if l.modules, err = json.Marshal(imports); err != nil {
		return nil, &sourceError{"The modules of the run cannot be read: " + err.Error()}
	}
	return l, nil
}

// addEntries adds the entries and problems of one bundle to another.
func addEntries(to, from *bundle.Bundle) {
	for specifier, id := range from.Entries {
		to.Entries[specifier] = id
	}
	for specifier, problem := range from.Problems {
		to.Problems[specifier] = problem
	}
}

// classify returns the specifiers of packages and of files in a script. It adds built-in
// modules and refused specifiers to b.
func classify(found *typescript.Imports, b *bundle.Bundle) (packages, relative []string) {
	all := slices.Clone(found.Dynamic)
	for _, i := range found.Static {
		all = append(all, i.Specifier)
	}
	slices.Sort(all)
	addBuiltin := func(specifier, id string) {
		if bundle.HasBuiltin(id) {
			b.Entries[specifier] = id
		} else {
			b.Problems[specifier] = "this platform has no such module"
		}
	}
	for _, specifier := range slices.Compact(all) {
		switch s := bundle.Parse(specifier); {
		case s.Kind == bundle.Builtin:
			addBuiltin(specifier, s.Package)
		case bundle.IsBuiltin(specifier):
			addBuiltin(specifier, "node:"+specifier)
		case s.Kind == bundle.Relative:
			relative = append(relative, specifier)
		case s.Kind == bundle.Npm:
			packages = append(packages, specifier)
		default:
			b.Problems[specifier] = s.Why
		}
	}
	return packages, relative
}

// checkStatic returns an error for the first import statement that names nothing.
func checkStatic(found *typescript.Imports, known *bundle.Bundle, file string) error {
	for _, i := range found.Static {
		if known.Entries[i.Specifier] != "" {
			continue
		}
		why := known.Problems[i.Specifier]
		if why == "" {
			why = "it is not admitted"
		}
		return &sourceError{fmt.Sprintf("SyntaxError: Cannot find module '%s': %s\n    at %s:%d:%d", i.Specifier, why, file, i.Line, i.Column)}
	}
	return nil
}

// declarations returns what the import statements import, and the script that declares their
// names.
func declarations(found *typescript.Imports) ([]v8.Import, []byte) {
	static := []v8.Import{}
	var names []string
	for _, i := range found.Static {
		one := v8.Import{Specifier: i.Specifier, Names: []string{}}
		for _, n := range i.Names {
			one.Names = append(one.Names, n.Export)
			names = append(names, fmt.Sprintf("%s = __daybookImports[%d]", n.Local, len(names)))
		}
		static = append(static, one)
	}
	if len(names) == 0 {
		return static, nil
	}
	return static, []byte("const " + strings.Join(names, ", ") + ";")
}
