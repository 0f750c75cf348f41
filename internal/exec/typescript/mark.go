package typescript

import (
	"bytes"
	"errors"
	"slices"
	"strings"
)

var errMarks = errors.New("the marks of statements were lost")

// forEachValue calls f for each expression statement outside functions, classes and namespaces.
// The value of the script may be the value of one of them.
func (t *tree) forEachValue(f func(statement, expression int)) {
	for i := 0; i < len(t.nodes); {
		switch t.kind(i) {
		case "function_declaration", "function_expression", "generator_function", "generator_function_declaration", "arrow_function", "method_definition",
			"class_body", "internal_module", "module", "ambient_declaration", "enum_declaration":
			i = t.last(i)
			continue
		case "expression_statement":
			if e := t.expression(i); e != none && !t.namespaceStatement(e) {
				f(i, e)
			}
			i = t.last(i)
			continue
		}
		i++
	}
}

func (t *tree) namespaceStatement(i int) bool {
	return t.kind(i) == "internal_module" || t.kind(i) == "module"
}

// mark makes the expression of each statement that may be the script's value the argument of a
// call of name, because esbuild removes statements that it can compute, but no calls. It also
// adds a semicolon to statements that esbuild would join to the next line.
func (t *tree) mark(name string) (marked []byte, inserted []insertion) {
	directives := t.directives()
	t.forEachValue(func(statement, expression int) {
		if directives[statement] || t.only != 0 && statement != t.only {
			return
		}
		opening, closing := "(", ")"
		if t.kind(expression) == "sequence_expression" {
			opening, closing = "((", "))" // one argument
		}
		if t.source[t.end(statement)-1] != ';' || t.end(expression) == t.end(statement) {
			closing += ";"
		}
		inserted = append(inserted, insertion{t.start(expression), name + opening}, insertion{t.end(expression), closing})
	})
	if t.only == 0 {
		marked := map[int]bool{}
		for _, n := range inserted {
			marked[n.at] = true
		}
		for _, n := range t.ends() {
			if !marked[n.at] {
				inserted = append(inserted, n)
			}
		}
		slices.SortStableFunc(inserted, func(a, b insertion) int { return a.at - b.at })
	}
	return insert(t.source, inserted), inserted
}

// ends returns a semicolon for each statement that the grammar does not end where TypeScript does.
// For example, esbuild and the grammar read x++ with a parenthesis on the next line as a call.
func (t *tree) ends() []insertion {
	var ends []insertion
	for _, at := range t.breaks {
		ends = append(ends, insertion{at, ";"})
	}
	slices.SortFunc(ends, func(a, b insertion) int { return a.at - b.at })
	return ends
}

// isAddedTo reports whether esbuild added the statement with this expression to source. That is so
// if the expression calls or assigns a name that source does not contain, or is the call that
// fills a namespace.
func (t *tree) isAddedTo(source []byte, expression int) bool {
	isNew := func(i int) bool {
		return i != none && t.kind(i) == "identifier" && !bytes.Contains(source, []byte(t.text(i)))
	}
	switch t.kind(expression) {
	case "sequence_expression":
		return t.isAddedTo(source, t.first(expression))
	case "binary_expression":
		return isNew(t.first(expression))
	case "assignment_expression":
		if isNew(t.first(expression)) {
			return true
		}
		right := t.child(expression, "call_expression")
		return right != none && isNew(t.first(right))
	case "call_expression":
		f := t.first(expression)
		if isNew(f) {
			return true
		}
		if t.kind(f) != "parenthesized_expression" || t.child(f, "arrow_function") == none {
			return false
		}
		parameters := t.child(t.child(f, "arrow_function"), "formal_parameters")
		if parameters == none || t.expression(parameters) == none {
			return false
		}
		return isNew(t.child(t.expression(parameters), "identifier"))
	}
	return false
}

// endsInMark reports whether the last statement with a value is marked.
func (t *tree) endsInMark(name string) bool {
	last := t.lastStatement()
	if last == none || t.kind(last) != "expression_statement" {
		return false
	}
	call := t.expression(last)
	return t.kind(call) == "call_expression" && t.text(t.first(call)) == name
}

// directives returns the statements of the directive prologue. The prologue ends before a string
// with an escape: esbuild prints that string without the escape, which would make the string a
// directive.
func (t *tree) directives() map[int]bool {
	found := map[int]bool{}
	for c := t.first(0); c != none; c = t.next(c) {
		if t.kind(c) == "comment" || t.kind(c) == "hash_bang_line" {
			continue
		}
		e := t.expression(c)
		if t.kind(c) != "expression_statement" || e == none || t.kind(e) != "string" || strings.Contains(t.text(e), `\`) {
			break
		}
		found[c] = true
	}
	return found
}

// holdsFunction reports whether the argument of a mark is an arrow function, with or without
// parentheses. esbuild prints parentheses around an arrow function if the source has them. It
// would take the parentheses that remain of the mark for such parentheses, so unmark has to remove
// them.
func (t *tree) holdsFunction(arguments int) bool {
	if arguments == none || t.kind(arguments) != "arguments" {
		return false
	}
	e := t.expression(arguments)
	for e != none && t.kind(e) == "parenthesized_expression" {
		e = t.expression(e)
	}
	return t.kind(e) == "arrow_function"
}

// unmark removes the marks from the output of esbuild for source. Statements that esbuild added are
// given a form without a value. Other statements must have a mark unless loosely is set. plain is
// the code without the marks, but with the added statements in their original form.
func (t *tree) unmark(name string, source []byte, loosely bool) (code, plain []byte, err error) {
	out := append([]byte(nil), t.source...)
	directives := t.directives()
	var added []insertion
	calls, unknown := 0, 0
	t.forEachValue(func(statement, expression int) {
		if f := t.first(expression); t.kind(expression) == "call_expression" && t.kind(f) == "identifier" && t.text(f) == name {
			for at := t.start(f); at < t.end(f); at++ {
				out[at] = ' '
			}
			if t.holdsFunction(t.next(f)) {
				out[t.start(t.next(f))], out[t.end(t.next(f))-1] = ' ', ' '
			}
			calls++
			return
		}
		if directives[statement] {
			return
		}
		if !t.isAddedTo(source, expression) || !isList(t.parentKind(statement)) {
			if !loosely {
				unknown++
			}
			return
		}
		before, end := t.start(statement), t.end(statement)
		if t.source[end-1] == ';' {
			end--
		}
		// Inserted at the end of the line before, so that columns stay the same.
		for at := before; at > 0; at-- {
			if b := t.source[at-1]; b == '\n' {
				before = at - 1
				break
			} else if b != ' ' && b != '\t' {
				break
			}
		}
		added = append(added, insertion{before, "{let " + name + "=("}, insertion{end, ")"}, insertion{t.end(statement), "}"})
	})
	for i := range t.nodes {
		if t.kind(i) == "identifier" && t.nodes[i].end-t.nodes[i].start == uint32(len(name)) && t.text(i) == name {
			calls--
		}
	}
	if calls != 0 || unknown > 0 {
		return nil, nil, errMarks
	}
	return insert(out, added), out, nil
}
