package bundle

import (
	"fmt"
	"maps"
	"slices"

	"github.com/evanw/esbuild/pkg/api"

	"daybook/internal/exec/typescript"
)

// linker resolves the names that the files of a run import from each other, like ResolveExport of
// ECMA-262: a missing name is an error before anything runs. The names of other modules (packages,
// built-in modules, CommonJS, JSON) are known only when they are evaluated. A name that several
// export * statements export is no error: the first statement counts.
type linker struct {
	modules map[string]*linked // by id
}

// linked is a file with import or export statements.
type linked struct {
	exports map[string]bool
	imports map[string]string // the module of each specifier
	links   []typescript.Link
	// again holds, by exported name, the exports of other modules that are exported again.
	again map[string]export
	stars []string // the modules of the export * statements, "" for unknown ones
}

// add notes a file. hasAll is false if the file may export more names of other modules than
// exports and links say.
func (l *linker) add(id string, exports []string, imports map[string]string, links []typescript.Link, hasAll bool) {
	m := &linked{exports: map[string]bool{}, imports: imports, links: links, again: map[string]export{}}
	for _, name := range exports {
		m.exports[name] = true
	}
	for _, link := range links {
		switch {
		case link.Export == "*":
			m.stars = append(m.stars, imports[link.Specifier])
		case link.Export != "" && link.Name != "*":
			m.again[link.Export] = export{imports[link.Specifier], link.Name}
		}
	}
	if !hasAll {
		m.stars = append(m.stars, "")
	}
	slices.Sort(m.stars)
	m.stars = slices.Compact(m.stars)
	if l.modules == nil {
		l.modules = map[string]*linked{}
	}
	l.modules[id] = m
}

// check returns an *Error for the first name that its module does not export.
func (l *linker) check() error {
	for _, id := range slices.Sorted(maps.Keys(l.modules)) {
		m := l.modules[id]
		for _, link := range m.links {
			target := m.imports[link.Specifier]
			if link.Name == "*" || l.modules[target] == nil {
				continue
			}
			seen := map[export]bool{}
			if l.resolve(export{target, link.Name}, seen) != missing {
				continue
			}
			why := ""
			if loaderOf(id) == api.LoaderTS {
				why = "; write import type for a type"
			}
			if len(seen) > 1 && l.modules[target].exports[link.Name] {
				why = ": the modules that it names export it from each other"
			}
			return &Error{fmt.Sprintf("The requested module '%s' does not provide an export named '%s'%s (%s:%d:%d)", link.Specifier, link.Name, why, id, link.Line, link.Column)}
		}
	}
	return nil
}

// export is a name of a module.
type export struct{ id, name string }

// resolution is what is known about an export before its module is evaluated.
type resolution int

const (
	missing resolution = iota
	unknown            // it leads to a module whose names are not known
	declared
)

// resolve follows an export to its declaration. seen has the exports that were asked for before.
func (l *linker) resolve(e export, seen map[export]bool) resolution {
	m := l.modules[e.id]
	if m == nil {
		return unknown
	}
	if seen[e] {
		return missing
	}
	seen[e] = true
	if m.exports[e.name] {
		if other, again := m.again[e.name]; again {
			return l.resolve(other, seen)
		}
		return declared
	}
	best := missing
	if e.name == "default" { // an export * statement exports all but default
		return best
	}
	for _, id := range m.stars {
		if best = max(best, l.resolve(export{id, e.name}, seen)); best == declared {
			break
		}
	}
	return best
}

// unchecked returns, by specifier, the names that a module takes from modules whose names are
// known only when they are evaluated, or from files that export all names of such modules.
func (l *linker) unchecked(id string) map[string][]string {
	m := l.modules[id]
	if m == nil {
		return nil
	}
	var names map[string][]string
	known := map[export]bool{}
	for _, link := range m.links {
		e := export{link.Specifier, link.Name}
		target := m.imports[link.Specifier]
		if target == "" || link.Name == "*" || known[e] {
			continue
		}
		known[e] = true
		if l.resolve(export{target, link.Name}, map[export]bool{}) != unknown {
			continue
		}
		if names == nil {
			names = map[string][]string{}
		}
		names[link.Specifier] = append(names[link.Specifier], link.Name)
	}
	return names
}
