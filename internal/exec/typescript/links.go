package typescript

import "bytes"

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
// their order. Statements that take only types are left out. A module that cannot be parsed has no
// links.
func FindLinks(source []byte) []Link {
	if !bytes.Contains(source, []byte("from")) || nesting(source) > maxDepth {
		return nil
	}
	t, err := parse(source)
	if err != nil {
		return nil
	}
	var all []Link
	bound := map[string]int{} // an imported name by its local one
	for i := t.first(0); i != none; i = t.next(i) {
		switch t.kind(i) {
		case "import_statement":
			if t.child(i, "type", "import_require_clause") != none {
				continue
			}
			one, err := t.importStatement(i)
			if err != nil {
				continue // esbuild reads names with escapes
			}
			for _, n := range one.Names {
				bound[n.Local] = len(all)
				all = append(all, Link{one.Specifier, n.Export, "", one.Line, one.Column})
			}
		case "export_statement":
			all = append(all, t.exportedLinks(i)...)
		}
	}
	for i := t.first(0); i != none; i = t.next(i) {
		clause := t.child(i, "export_clause")
		if t.kind(i) != "export_statement" || clause == none || t.child(i, "type", "string") != none {
			continue
		}
		for _, n := range t.exportedNames(clause) {
			if at, ok := bound[n.local]; ok {
				l := all[at]
				l.Export = n.export
				all = append(all, l)
			}
		}
	}
	return all
}

// exportedLinks returns the links of an export ... from statement.
func (t *tree) exportedLinks(i int) []Link {
	path := t.child(i, "string")
	if path == none || t.child(i, "type", "default") != none {
		return nil
	}
	specifier, err := t.plainString(path)
	if err != nil {
		return nil // esbuild reads names with escapes
	}
	l := Link{Specifier: specifier, Name: "*", Export: "*"}
	l.Line, l.Column = position(t.source, t.start(i))
	if clause := t.child(i, "export_clause"); clause != none {
		var all []Link
		for _, n := range t.exportedNames(clause) {
			l.Name, l.Export = n.local, n.export
			all = append(all, l)
		}
		return all
	}
	if namespace := t.child(i, "namespace_export"); namespace != none {
		l.Export = ""
		if name := t.last(namespace) - 1; t.kind(name) != "string" {
			l.Export = t.text(name)
		}
	}
	return []Link{l}
}

// exportedName is a name in an export clause, such as "local as export".
type exportedName struct{ local, export string }

// exportedNames returns the names of an export clause that are no types.
func (t *tree) exportedNames(clause int) []exportedName {
	var all []exportedName
	for s := t.first(clause); s != none; s = t.next(s) {
		if t.kind(s) != "export_specifier" || t.child(s, "type", "typeof") != none {
			continue
		}
		var names []string
		for c := t.first(s); c != none; c = t.next(c) {
			switch t.kind(c) {
			case "as", "comment":
			case "string":
				if text, err := t.plainString(c); err == nil {
					names = append(names, text)
				}
			default:
				names = append(names, t.text(c))
			}
		}
		if len(names) > 0 {
			all = append(all, exportedName{names[0], names[len(names)-1]})
		}
	}
	return all
}
