package typescript

import (
	"bytes"
	"strings"
)

// Link is a name that a module takes from another one.
type Link struct {
	// Specifier names the other module.
	Specifier string
	// Name is the name of its export, "default", or "*" for its namespace.
	Name string
	// Export is the name under which the module exports it again, or "*" for all names of an
	// export * statement. It is empty if the module only imports it.
	Export string
	// Line and Column are the position of the statement, 1-based; Column counts UTF-16 units.
	Line, Column int
}

// FindLinks returns what the import and export statements of a module take from other modules, in
// their order. Statements that take only types are left out. complete is false if the module has
// more: it cannot be parsed, or has names with escapes in these statements, which only esbuild
// reads.
func FindLinks(source []byte) (all []Link, complete bool) {
	if !bytes.Contains(source, []byte("from")) {
		return nil, true
	}
	if nesting(source) > maxDepth {
		return nil, false
	}
	t, err := parse(source)
	if err != nil {
		return nil, false
	}
	complete = true
	bound := map[string]int{} // an imported name by its local one
	for i := t.first(0); i != none; i = t.next(i) {
		switch t.kind(i) {
		case "import_statement":
			if t.child(i, "type", "import_require_clause") != none {
				continue
			}
			one, err := t.importStatement(i)
			if err != nil {
				complete = false
				continue
			}
			for _, n := range one.Names {
				if hasEscape(n.Export) {
					complete = false
					continue
				}
				bound[n.Local] = len(all)
				all = append(all, Link{one.Specifier, n.Export, "", one.Line, one.Column})
			}
		case "export_statement":
			links, ok := t.exportedLinks(i)
			all = append(all, links...)
			complete = complete && ok
		}
	}
	for i := t.first(0); i != none; i = t.next(i) {
		clause := t.child(i, "export_clause")
		if t.kind(i) != "export_statement" || clause == none || t.child(i, "type", "string") != none {
			continue
		}
		names, ok := t.exportedNames(clause)
		complete = complete && ok
		for _, n := range names {
			if at, ok := bound[n.local]; ok {
				l := all[at]
				l.Export = n.export
				all = append(all, l)
			}
		}
	}
	return all, complete
}

// exportedLinks returns the links of an export ... from statement, and whether these are all.
func (t *tree) exportedLinks(i int) (all []Link, complete bool) {
	path := t.child(i, "string")
	if path == none || t.child(i, "type", "default") != none {
		return nil, true
	}
	specifier, err := t.plainString(path)
	if err != nil {
		return nil, false
	}
	l := Link{Specifier: specifier, Name: "*", Export: "*"}
	l.Line, l.Column = position(t.source, t.start(i))
	if clause := t.child(i, "export_clause"); clause != none {
		names, ok := t.exportedNames(clause)
		for _, n := range names {
			l.Name, l.Export = n.local, n.export
			all = append(all, l)
		}
		return all, ok
	}
	if namespace := t.child(i, "namespace_export"); namespace != none {
		l.Export = ""
		if name := t.last(namespace) - 1; t.kind(name) != "string" {
			l.Export = t.text(name)
		}
	}
	return []Link{l}, !hasEscape(l.Export)
}

func hasEscape(name string) bool { return strings.Contains(name, `\`) }

// exportedName is a name in an export clause, such as "local as export".
type exportedName struct{ local, export string }

// exportedNames returns the names of an export clause that are no types, and whether these are all.
func (t *tree) exportedNames(clause int) (all []exportedName, complete bool) {
	complete = true
	for s := t.first(clause); s != none; s = t.next(s) {
		if t.kind(s) != "export_specifier" || t.child(s, "type", "typeof") != none {
			continue
		}
		var names []string
		readable := true
		for c := t.first(s); c != none; c = t.next(c) {
			switch t.kind(c) {
			case "as", "comment":
			case "string":
				text, err := t.plainString(c)
				readable = readable && err == nil
				names = append(names, text)
			default:
				names = append(names, t.text(c))
				readable = readable && !hasEscape(t.text(c))
			}
		}
		if complete = complete && readable; readable && len(names) > 0 {
			all = append(all, exportedName{names[0], names[len(names)-1]})
		}
	}
	return all, complete
}
