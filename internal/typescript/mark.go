package typescript

import "errors"

var errMarks = errors.New("the marks of statements were lost")

// values calls f for each expression statement outside of functions, classes and
// namespaces: those whose value may be that of the script.
func (t *tree) values(f func(statement, expression int)) {
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

// mark makes each expression statement that may be the script's value the
// argument of a call: esbuild leaves out statements that it can compute, but no
// calls.
func (t *tree) mark(name string) (marked []byte, inserted []insertion) {
	directives := t.directives()
	t.values(func(statement, expression int) {
		if directives[statement] || t.only != 0 && statement != t.only {
			return
		}
		closing := "))"
		if t.source[t.end(statement)-1] != ';' || t.end(expression) == t.end(statement) {
			closing += ";"
		}
		inserted = append(inserted, insertion{t.start(expression), name + "(("}, insertion{t.end(expression), closing})
	})
	return insert(t.source, inserted), inserted
}

// endsInMark reports whether the last statement with a value is a marked one.
func (t *tree) endsInMark(name string) bool {
	last := t.lastValue()
	if last == none || t.kind(last) != "expression_statement" {
		return false
	}
	call := t.expression(last)
	return t.kind(call) == "call_expression" && t.text(t.first(call)) == name
}

// directives returns the statements of the directive prologue. One with an
// escape is none of them: esbuild would print it without, and make it one.
func (t *tree) directives() map[int]bool {
	found := map[int]bool{}
	for c := t.first(0); c != none; c = t.next(c) {
		if t.kind(c) == "comment" || t.kind(c) == "hash_bang_line" {
			continue
		}
		e := t.expression(c)
		if t.kind(c) != "expression_statement" || e == none || t.kind(e) != "string" || t.child(e, "escape_sequence") != none {
			break
		}
		found[c] = true
	}
	return found
}

// unmark takes the marks out of what esbuild printed. Statements that esbuild
// added get a form without a value. plain is the code without the latter change.
func (t *tree) unmark(name string) (code, plain []byte, err error) {
	out := append([]byte(nil), t.source...)
	directives := t.directives()
	var added []insertion
	calls := 0
	t.values(func(statement, expression int) {
		if f := t.first(expression); t.kind(expression) == "call_expression" && t.kind(f) == "identifier" && t.text(f) == name {
			for at := t.start(f); at < t.end(f); at++ {
				out[at] = ' '
			}
			calls++
			return
		}
		if p := t.parentKind(statement); directives[statement] || p != "program" && p != "statement_block" && p != "switch_case" && p != "switch_default" {
			return
		}
		before, end := t.start(statement), t.end(statement)
		if t.source[end-1] == ';' {
			end--
		}
		// At the end of the line before, so that columns stay.
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
	if calls != 0 {
		return nil, nil, errMarks
	}
	return insert(out, added), out, nil
}
