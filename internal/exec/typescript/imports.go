package typescript

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/evanw/esbuild/pkg/api"
)

// Imports are the imports of a script. V8 evaluates scripts, and accepts no import statements
// in them.
type Imports struct {
	// Code is the source without its import statements: each is replaced by a semicolon and
	// white space of the same layout.
	Code []byte
	// Static are the import statements in their order.
	Static []Import
	// Dynamic are the constant specifiers of import(...), sorted, each once.
	Dynamic []string
}

// Import is an import statement. Statements that import only types are no Imports.
type Import struct {
	Specifier string
	Names     []ImportedName
	// Line and Column are the position of the statement, 1-based; Column counts UTF-16 units.
	Line, Column int
}

// ImportedName is a name that an import statement binds.
type ImportedName struct {
	// Export is the imported name, "default", or "*" for the namespace.
	Export string
	// Local is the name of the binding: an identifier.
	Local string
}

// importWord is in every source with an import.
var importWord = []byte("import")

// FindImports returns the imports of a script, or nil if it has none. A script that cannot be
// parsed has none: V8 then reports its errors. The error is a *SyntaxError.
func FindImports(source []byte) (*Imports, error) {
	if !bytes.Contains(source, importWord) || nesting(source) > maxDepth {
		return nil, nil
	}
	t, err := parse(source)
	if err != nil {
		return nil, nil //nolint:nilerr // V8 reports the error
	}
	found := &Imports{Code: source}
	e := &eraser{tree: t, out: slices.Clone(source)}
	for i := range t.nodes {
		switch t.kind(i) {
		case "import_statement":
			if t.parentKind(i) != "program" || t.child(i, "type", "import_require_clause") != none {
				continue // only types, or refused by V8 and by esbuild
			}
			found.Code = e.out
			one, err := t.importStatement(i)
			if err != nil {
				return nil, err
			}
			found.Static = append(found.Static, one)
			e.blank(t.start(i), t.end(i))
			e.out[t.start(i)] = ';'
		case "call_expression":
			specifier, ok := t.importCall(i)
			if ok && !slices.Contains(found.Dynamic, specifier) {
				found.Dynamic = append(found.Dynamic, specifier)
			}
		}
	}
	if len(found.Static) > 0 {
		if err := declaredTwice(source); err != nil {
			return nil, err
		}
	}
	slices.Sort(found.Dynamic)
	if len(found.Static) == 0 && len(found.Dynamic) == 0 {
		return nil, nil
	}
	return found, nil
}

// declaredTwice returns an error if a script declares a name that it also imports. V8 would
// accept it, because it evaluates the declarations of imported names as a script before.
func declaredTwice(source []byte) error {
	for _, m := range transform(source, api.LoaderTS, false).Errors {
		if strings.HasSuffix(m.Text, "has already been declared") {
			return syntaxError([]api.Message{m})
		}
	}
	return nil
}

// errorAt returns a *SyntaxError about node i.
func (t *tree) errorAt(i int, format string, args ...any) error {
	line, column := position(t.source, t.start(i))
	return &SyntaxError{Text: fmt.Sprintf(format, args...), Line: line, Column: column}
}

func (t *tree) importStatement(i int) (Import, error) {
	var one Import
	one.Line, one.Column = position(t.source, t.start(i))
	path := t.child(i, "string")
	if path == none {
		return one, t.errorAt(i, "This import statement has no module name")
	}
	var err error
	if one.Specifier, err = t.plainString(path); err != nil {
		return one, err
	}
	clause := t.child(i, "import_clause")
	if clause == none {
		return one, nil
	}
	add := func(export string, local int) {
		one.Names = append(one.Names, ImportedName{Export: export, Local: t.text(local)})
	}
	for c := t.first(clause); c != none; c = t.next(c) {
		switch t.kind(c) {
		case "identifier":
			add("default", c)
		case "namespace_import":
			if name := t.child(c, "identifier"); name != none {
				add("*", name)
			}
		case "named_imports":
			for s := t.first(c); s != none; s = t.next(s) {
				if t.kind(s) != "import_specifier" {
					continue
				}
				export, local, err := t.importSpecifier(s)
				if err != nil {
					return one, err
				}
				if local != none {
					add(export, local)
				}
			}
		}
	}
	return one, nil
}

// importSpecifier returns the exported name and the node of the local name of a specifier
// such as "a as b". The node is none if the specifier imports a type.
func (t *tree) importSpecifier(i int) (export string, local int, err error) {
	var names []int
	for c := t.first(i); c != none; c = t.next(c) {
		switch t.kind(c) {
		case "type", "typeof":
			return "", none, nil
		case "identifier", "string":
			names = append(names, c)
		}
		if t.kind(c) == "as" || t.kind(c) == "comment" {
			continue
		}
		if k := t.kind(c); k != "identifier" && k != "string" {
			names = append(names, c) // "default" and other words
		}
	}
	if len(names) == 0 || len(names) > 2 || t.kind(names[len(names)-1]) != "identifier" {
		return "", none, t.errorAt(i, "This import specifier has an unknown form; write name or name as other")
	}
	export = t.text(names[0])
	if t.kind(names[0]) == "string" {
		if export, err = t.plainString(names[0]); err != nil {
			return "", none, err
		}
	}
	return export, names[len(names)-1], nil
}

// importCall returns the specifier of an import(...) with a constant specifier.
func (t *tree) importCall(i int) (string, bool) {
	function := t.first(i)
	if function == none || t.kind(function) != "import" {
		return "", false
	}
	arguments := t.child(i, "arguments")
	if arguments == none {
		return "", false
	}
	argument := t.expression(arguments)
	if argument == none {
		return "", false
	}
	switch t.kind(argument) {
	case "string":
		text, err := t.plainString(argument)
		return text, err == nil
	case "template_string":
		text := t.text(argument)
		return text[1 : len(text)-1], len(text) > 2 && !strings.ContainsAny(text, "\\$")
	}
	return "", false
}

// plainString returns the value of a string literal without escapes.
func (t *tree) plainString(i int) (string, error) {
	text := t.text(i)
	if len(text) < 2 || strings.Contains(text, `\`) || !utf8.ValidString(text) {
		return "", t.errorAt(i, "Write the names in import statements without escapes")
	}
	return text[1 : len(text)-1], nil
}
