package bundle

import (
	"fmt"
	"maps"
	"slices"

	"daybook/internal/exec/typescript"
)

// linker resolves the names that the files of a run import from each other, as ResolveExport of
// ECMA-262 does: a missing name is an error before anything runs. The names of other modules
// (packages, built-in modules, CommonJS, JSON) are known only when they are evaluated.
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
	stars []string // the modules of the export * statements
}

func (l *linker) add(id string, exports []string, imports map[string]string, links []typescript.Link) {
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
			if l.resolves(export{target, link.Name}, seen) {
				continue
			}
			why := "; write import type for a type"
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

// resolves reports whether an export leads to a declaration, or to a module whose names are not
// known. seen has the exports that were asked for before.
func (l *linker) resolves(e export, seen map[export]bool) bool {
	m := l.modules[e.id]
	if m == nil {
		return true
	}
	if seen[e] {
		return false
	}
	seen[e] = true
	if m.exports[e.name] {
		other, again := m.again[e.name]
		return !again || l.resolves(other, seen)
	}
	if e.name == "default" { // an export * statement exports all but default
		return false
	}
	return slices.ContainsFunc(m.stars, func(id string) bool { return l.resolves(export{id, e.name}, seen) })
}

// unchecked returns, by specifier, the names that a module takes from modules whose names are
// known only when they are evaluated.
func (l *linker) unchecked(id string) map[string][]string {
	m := l.modules[id]
	if m == nil {
		return nil
	}
	var names map[string][]string
	known := map[export]bool{}
	for _, link := range m.links {
		target := m.imports[link.Specifier]
		if target == "" || link.Name == "*" || l.modules[target] != nil {
			continue
		}
		if e := (export{link.Specifier, link.Name}); known[e] {
			continue
		} else if known[e] = true; names == nil {
			names = map[string][]string{}
		}
		names[link.Specifier] = append(names[link.Specifier], link.Name)
	}
	return names
}
